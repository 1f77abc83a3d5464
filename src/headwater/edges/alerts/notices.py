"""What alerts have to say, as facts in a topic: firing, recovered, matched. Pure but for `read`.

The topic `headwater.alerts` is all the state that alerts have. Whoever is to be told follows it, as a webhook
follows any topic; at the start a rule reads from it what it had said before, so a restart neither repeats nor
forgets. Compacted by key, after a week, so that the last word on each subject stays.

    key      NAME, NAME|SUBJECT (a record's key), or NAME|TOPIC-PARTITION for matches
    value    {"alert", "state", "subject", "summary", "value", "at_ms", "since_ms", "record"}
    record   {"topic", "partition", "offset", "key", "value"}, where one record was the cause
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TypedDict

import msgspec

from headwater.client import ranges
from headwater.client.errors import NotThere
from headwater.client.log import Log
from headwater.client.namespace import ALERTS
from headwater.client.publisher import Draft
from headwater.client.records import Record
from headwater.edges.webhooks.delivery import Place

TOPIC = ALERTS
SETTINGS = {"cleanup_policy": "compact", "min_compaction_lag_ms": str(7 * 24 * 3600 * 1000)}
SHOWN_CHARACTERS = 2000
FIRING, RECOVERED, MATCHED = "firing", "recovered", "matched"


class Shown(TypedDict):
    """A record for people, shortened."""

    topic: str
    partition: int
    offset: int
    key: str | None
    value: str | None


@dataclass(frozen=True)
class Notice:
    """One fact. `since_ms`: of a recovery, when it had begun."""

    alert: str
    state: str
    summary: str
    at_ms: int
    subject: str | None = None
    value: float | None = None
    since_ms: int | None = None
    record: Shown | None = None

    def draft(self) -> Draft:
        about = self.subject
        if self.state == MATCHED and self.record is not None:
            about = f"{self.record['topic']}-{self.record['partition']}"
        key = self.alert if about is None else f"{self.alert}|{about}"
        value = json.dumps(asdict(self), ensure_ascii=False).encode()
        return Draft(key.encode(), value, [("content-type", b"application/json")])

    @property
    def place(self) -> tuple[Place, int] | None:
        """Where the record lies that was the cause."""
        found = self.record
        if found is None:
            return None
        return (found["topic"], found["partition"]), found["offset"]


@dataclass
class Said:
    """What one alert has said so far."""

    firing: dict[str | None, int] = field(default_factory=dict)
    """Subject → since when."""
    through: dict[Place, int] = field(default_factory=dict)
    """The last offset with a consequence: up to there everything was looked at."""

    def add(self, notice: Notice) -> None:
        if notice.state == FIRING:
            self.firing[notice.subject] = notice.at_ms
        elif notice.state == RECOVERED:
            self.firing.pop(notice.subject, None)
        if (found := notice.place) is not None:
            place, offset = found
            self.through[place] = max(offset, self.through.get(place, -1))


def shown(record: Record) -> Shown:
    def text(data: bytes | None) -> str | None:
        return None if data is None else data[:SHOWN_CHARACTERS].decode("utf-8", "replace")

    return Shown(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        key=text(record.key),
        value=text(record.value),
    )


def notice_of(value: bytes | None) -> Notice | None:
    """None for what is none of ours: other clients may write the topic, too."""
    try:
        found = msgspec.json.decode(value or b"", type=Notice)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.state in (FIRING, RECOVERED, MATCHED) else None


def said(alert: str, values: Iterable[bytes | None]) -> Said:
    found = Said()
    for value in values:
        notice = notice_of(value)
        if notice is not None and notice.alert == alert:
            found.add(notice)
    return found


def read(log: Log, alert: str) -> Said:
    """What the topic has of one alert."""
    try:
        held = log.ranges(TOPIC)
    except NotThere:
        return Said()
    found = ranges.read(log, TOPIC, held)
    return said(alert, (record.value for some in found for record in some))
