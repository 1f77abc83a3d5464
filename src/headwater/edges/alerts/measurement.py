"""How far behind, how long silent: one look each, in a thread. Called by `watcher`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.client import groups
from headwater.client.errors import NotThere
from headwater.client.log import Log
from headwater.edges.alerts.config import Alert
from headwater.edges.alerts.rules import Lag, Silence
from headwater.project.file import Project

if TYPE_CHECKING:
    from headwater.client.position import Position

_GROUP = "headwater-"
"""A view that goes to a topic or to files has the position of its query's group."""


@dataclass(frozen=True)
class Measured:
    is_bad: bool
    summary: str
    value: float


Measure = Callable[[], Measured]


def of(alert: Alert, log: Log, project: Project | None) -> Measure:
    """Raises NotThere for a view that the project does not have."""
    rule = alert.rule
    if isinstance(rule, Silence):
        if alert.kind == "topic":
            newest = _Newest(log, alert.about)
            return lambda: _silent(rule, alert.about, newest.age_s())
        stands = _Stands(_position_of(alert.about, log, project))
        return lambda: _silent(rule, f"the view {alert.about}", stands.age_s())
    assert isinstance(rule, Lag)
    if alert.kind == "group":
        return lambda: _behind(rule, alert.about, groups.named(log, alert.about).lag)
    position_of = _position_of(alert.about, log, project)
    return lambda: _behind(rule, alert.about, _lag(log, position_of, alert.about, rule))


def _behind(rule: Lag, about: str, value: float) -> Measured:
    is_bad = rule.beyond.is_met(value)
    unit = " s" if rule.in_seconds else ""
    word = "is" if is_bad else "is no longer"
    return Measured(
        is_bad, f"the lag of {about} {word} {rule.beyond}{unit}: {value:,g}{unit}", value
    )


def _silent(rule: Silence, about: str, age_s: float) -> Measured:
    if age_s > rule.limit_s:
        return Measured(True, f"nothing new in {about} for {age_s:,.0f} s", age_s)
    return Measured(False, f"there is something new in {about} again", age_s)


class _Newest:
    """The time of a topic's newest record, as the record has it; before the first, since we look."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log, self._topic = log, topic
        self._began_s = time.time()

    def age_s(self) -> float:
        newest_s = self._log.newest_ms(self._topic) / 1000
        return max(0.0, time.time() - (newest_s if newest_s > 0 else self._began_s))


class _Stands:
    """How long a position has not moved, since we look."""

    def __init__(self, position_of: Callable[[], Position | None]) -> None:
        self._position_of = position_of
        self._last: Position | None = None
        self._since = time.monotonic()

    def age_s(self) -> float:
        now = self._position_of()
        if now != self._last:
            self._last, self._since = now, time.monotonic()
        return time.monotonic() - self._since


def _position_of(name: str, log: Log, project: Project | None) -> Callable[[], Position | None]:
    from headwater.views.operate.wait import View
    from headwater.views.targets.registry import is_store

    section = project.views.get(name) if project is not None else None
    if section is None:
        raise NotThere(f"there is no view {name!r}", hint=f"write [views.{name}] with `to = …`")
    if is_store(section["to"]):
        return View(name, section["to"]).position
    return lambda: _committed(log, _GROUP + name)


def _committed(log: Log, group: str) -> Position | None:
    from headwater.client.position import Position

    offsets: dict[str, dict[int, int]] = {}
    for each in groups.named(log, group).partitions:
        if each.committed is not None:
            offsets.setdefault(each.topic, {})[each.partition] = each.committed
    return Position(offsets) if offsets else None


def _lag(log: Log, position_of: Callable[[], Position | None], name: str, rule: Lag) -> float:
    from headwater.views.operate.progress import lag_of

    position = position_of()
    if position is None:
        raise NotThere(f"the view {name} has not begun", hint="does its query run?")
    with log.cluster() as connected:
        found = lag_of(connected, position)
    return found.seconds if rule.in_seconds else found.records
