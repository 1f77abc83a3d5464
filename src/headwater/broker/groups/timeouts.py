"""What happens to members of a group of the newer protocols that are too late: they are removed.

Each `service` looks when a group's `wake_at` has come. Late can be: a heartbeat (session), the
letting go of partitions (rebalance), and for classic members the JoinGroup after they were told to
rejoin and the SyncGroup after that. An assignment that was put off is made when its time has come.

After a restart all have the same time: those that are not heard of are removed in several turns.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Protocol, TypeVar

from headwater.broker import bounds
from headwater.broker.groups.effects import Now

log = logging.getLogger(__name__)

AT_ONCE = 100
"""So many members are removed in one turn of the event loop."""
SHOWN = 3


class Timed(Protocol):
    id: str

    def deadlines(self) -> Iterable[int]: ...


M = TypeVar("M", bound=Timed, covariant=True)


class Watched(Protocol[M]):
    id: str
    assign_at: int | None
    wake_at: int | None

    @property
    def members(self) -> Mapping[str, M]: ...


def late(group: Watched[M], now: Now) -> list[M]:
    """Some of those; while there are more, `set_wake` asks for the next turn."""
    found = (
        member
        for member in group.members.values()
        if any(deadline <= now.monotonic_ms for deadline in member.deadlines())
    )
    gone = list(islice(found, AT_ONCE))
    if gone:
        names = few_of([member.id for member in gone])
        log.info(
            "group %s: members that were not heard of in time: %s", bounds.logged(group.id), names
        )
    return gone


def few_of(members: Sequence[str]) -> str:
    """As many as a line of the log has room for."""
    names = ", ".join(map(bounds.logged, members[:SHOWN]))
    return f"{names} and {len(members) - SHOWN} more" if len(members) > SHOWN else names


def set_wake(group: Watched[Timed]) -> None:
    """The next time at which something is due."""
    deadlines = [deadline for m in group.members.values() for deadline in m.deadlines()]
    if group.assign_at is not None and group.members:
        deadlines.append(group.assign_at)
    group.wake_at = min(deadlines, default=None)
