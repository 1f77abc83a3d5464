"""From a turn of a group whose protocol has epochs to its answer: records first, and in order.

The moves have changed the group in memory already, so an answer must wait until all that the group
was told before is durable, also if it needs no record itself. If a record cannot be written, memory
is ahead of the log: whoever waits hears an error and tries again, and the next turn writes what was lost
anew, in one batch with its own, before anybody is answered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from kio.schema.errors import ErrorCode

from headwater.broker.groups.core import Core, for_members
from headwater.broker.groups.group import Group
from headwater.broker.groups.journal import Records

Then = Callable[[ErrorCode], None]


def nobody_waits(error: ErrorCode) -> None:
    """A time-out has nobody to answer; if its record is lost, the next turn writes it anew."""


class Unsettled(Group, Protocol):
    """A group whose memory may be ahead of its log."""

    unsaved: bool
    stale_keys: set[bytes]


class Changed(Protocol):
    """What one turn has changed."""

    def records(self) -> Records: ...

    def everything(self) -> None: ...


@dataclass(slots=True)
class _UnderWay:
    batches: int = 0
    followers: list[Then] = field(default_factory=list)


class Settling:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._under_way: dict[str, _UnderWay] = {}

    def settle(self, group: Unsettled, changes: Changed, then: Then) -> None:
        """Write what has changed; `then` hears when it is durable, together with all before it."""
        core = self._core
        if group.wake_at is not None and core.groups.get(group.id) is group:
            core.deadlines.wake(group.id, group.wake_at)
        found = _with_stale(group, changes) if group.unsaved else changes.records()
        under_way = self._under_way.setdefault(group.id, _UnderWay())
        if found:
            self._write(group, found, under_way, then)
        elif under_way.batches:
            under_way.followers.append(then)
        else:
            del self._under_way[group.id]
            then(ErrorCode.none)

    def retire(self, group: Group) -> None:
        """An empty group makes way for a classic one of its name; its offsets stay."""
        tombstones: Records = [(key, None) for key in group.tombstone_keys()]
        self._core.journal.append(group.id, tombstones, nobody_waits)

    def _write(self, group: Unsettled, found: Records, under_way: _UnderWay, then: Then) -> None:
        under_way.batches += 1

        def written(error: ErrorCode) -> None:
            keys = {key for key, _ in found}
            if error is not ErrorCode.none:
                group.stale_keys |= keys
            else:
                group.stale_keys -= keys
            group.unsaved = bool(group.stale_keys)
            then(for_members(error))
            self._one_less(group, under_way)

        self._core.journal.append(group.id, found, written)

    def _one_less(self, group: Unsettled, under_way: _UnderWay) -> None:
        under_way.batches -= 1
        if under_way.batches:
            return
        self._under_way.pop(group.id, None)
        error = ErrorCode.not_coordinator if group.unsaved else ErrorCode.none
        followers, under_way.followers = under_way.followers, []
        for follower in followers:
            follower(error)


def _with_stale(group: Unsettled, changes: Changed) -> Records:
    """What has changed, and what was lost, as it is now. Not all of the group: that may be more than can
    be written at once."""
    wanted = group.stale_keys | {key for key, _ in changes.records()}
    changes.everything()
    found = changes.records()
    gone = group.stale_keys - {key for key, _ in found}
    return [(key, None) for key in sorted(gone)] + [each for each in found if each[0] in wanted]
