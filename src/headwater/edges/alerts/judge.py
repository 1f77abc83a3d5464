"""From measurements and records to notices: each says something only when something changes; pure.

Called by `watcher` (measurements) and `record_rules` (records), with the time handed in. An alert fires when
its rule begins to hold, and recovers when it ceases to; in between it is silent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from headwater.browse.decoder import Decoder
from headwater.browse.filters import field_of
from headwater.client.records import Keep, Record
from headwater.edges.alerts.notices import FIRING, MATCHED, RECOVERED, Notice, Said, shown
from headwater.edges.alerts.rules import Beyond, Field
from headwater.edges.webhooks.delivery import Place

SUBJECTS_MAX = 10_000
"""That fire at once: each needs a place in memory."""


class Judge:
    """Remembers what fires. `said` is what was said before a restart."""

    def __init__(self, alert: str, said: Said) -> None:
        self.alert = alert
        self._said = said
        self.left_out = 0

    @property
    def firing(self) -> int:
        return len(self._said.firing)

    def measured(
        self,
        is_bad: bool,
        summary: str,
        at_ms: int,
        *,
        value: float | None = None,
        subject: str | None = None,
        record: Record | None = None,
    ) -> Notice | None:
        """A notice if this changes something."""
        since = self._said.firing.get(subject)
        if is_bad == (since is not None):
            return None
        if is_bad and len(self._said.firing) >= SUBJECTS_MAX:
            self.left_out += 1
            return None
        state = FIRING if is_bad else RECOVERED
        cause = None if record is None else shown(record)
        notice = Notice(self.alert, state, summary, at_ms, subject, value, since, cause)
        self._said.add(notice)
        return notice

    def was_seen(self, record: Record) -> bool:
        """Before a restart, with its consequences."""
        place = (record.topic, record.partition)
        return record.offset <= self._said.through.get(place, -1)


@dataclass
class Values:
    """`total > 100`: the last value of each key, against the limit."""

    judge: Judge
    rule: Field
    keep: Keep | None
    decoder: Decoder

    def look(self, records: Iterable[Record], now_ms: int) -> list[Notice]:
        found = []
        for record in records:
            if self.judge.was_seen(record) or (self.keep is not None and not self.keep(record)):
                continue
            value = number_at(self.decoder, record, self.rule.path)
            if value is None:
                continue
            subject = None if record.key is None else record.key.decode("utf-8", "replace")
            notice = self.judge.measured(
                self.rule.beyond.is_met(value),
                _said_of(self.rule.path, subject, value, self.rule.beyond),
                now_ms,
                value=value,
                subject=subject,
                record=record,
            )
            found += [] if notice is None else [notice]
        return found

    def tick(self, now_ms: int) -> list[Notice]:
        return []

    def waits_at(self, place: Place) -> int | None:
        return None


@dataclass
class Matches:
    """`matches`: each record, but not more often than asked for; the rest is counted and told later."""

    judge: Judge
    keep: Keep | None
    every_ms: float
    _told_ms: float = float("-inf")
    _waiting: dict[Place, list[Record]] = field(default_factory=dict)
    """The first and the last of those not told yet, and below how many."""
    _counts: dict[Place, int] = field(default_factory=dict)

    def look(self, records: Iterable[Record], now_ms: int) -> list[Notice]:
        for record in records:
            if self.judge.was_seen(record) or (self.keep is not None and not self.keep(record)):
                continue
            place = (record.topic, record.partition)
            ends = self._waiting.setdefault(place, [record, record])
            ends[1] = record
            self._counts[place] = self._counts.get(place, 0) + 1
        return self.tick(now_ms)

    def tick(self, now_ms: int) -> list[Notice]:
        if not self._waiting or now_ms < self._told_ms + self.every_ms:
            return []
        self._told_ms = now_ms
        notices = [self._notice(place, now_ms) for place in self._waiting]
        self._waiting.clear()
        self._counts.clear()
        return notices

    def _notice(self, place: Place, now_ms: int) -> Notice:
        first, last = self._waiting[place]
        count = self._counts[place]
        where = f"{place[0]}-{place[1]} at {first.offset}"
        more = "" if count == 1 else f", and {count - 1} more up to {last.offset}"
        return Notice(
            self.judge.alert,
            MATCHED,
            f"a record matched: {where}{more}",
            now_ms,
            value=count,
            record=shown(last),
        )

    def waits_at(self, place: Place) -> int | None:
        """The position must not go beyond this: after a restart these must be found again."""
        ends = self._waiting.get(place)
        return None if ends is None else ends[0].offset


Looking = Values | Matches


def number_at(decoder: Decoder, record: Record, path: str) -> float | None:
    """A field as a number; None where there is none."""
    if record.value is None:
        return None
    found = field_of(decoder.decode(record.value, record.topic).value, path.split("."))
    if isinstance(found, bool) or not isinstance(found, int | float) or found != found:
        return None
    return finite(found)


def finite(number: float) -> float:
    """As JSON has it: what is beyond all floats is the largest, for whoever sends it shall end no alert."""
    return float(max(-sys.float_info.max, min(sys.float_info.max, number)))


def _said_of(path: str, subject: str | None, value: float, beyond: Beyond) -> str:
    of = "" if subject is None else f" of {subject}"
    word = "is" if beyond.is_met(value) else "is no longer"
    return f"{path}{of} {word} {beyond}: {value:,g}"
