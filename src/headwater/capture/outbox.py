"""The outbox: rows of one table are events for the topics that they name, not changes of that table.

Sources call a `Router` for each row inserted into the table of `outbox = "…"`; an application thereby
publishes in the transaction in which it changes its data. Columns as in Debezium's outbox event router:

    id             header `id`: lets a consumer recognise an event that was sent twice
    aggregatetype  topic outbox.event.<aggregatetype>
    aggregateid    the record's key
    type           header `eventType`
    payload        the record's value, as it is; null: a tombstone
    headers        optional: a JSON object, each member a header
    topic          optional: where not null, the topic, instead of aggregatetype
    partition      optional: where not null, the partition, instead of the key's

Further columns are refused at the start, so that nothing an application says is dropped. A row that is
no event (no such topic name, headers that are no JSON object) and an update of a row go to the topic
NAME.outbox.dead-letters with the reason; deletes are tidying up, and pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from headwater.capture import dead_letters
from headwater.capture.change import BY_KEY, FullRecord, Headers
from headwater.capture.errors import Misconfigured

PREFIX = "outbox.event."
REQUIRED = ("id", "aggregatetype", "aggregateid", "type", "payload")
OPTIONAL = ("headers", "topic", "partition")
NO_EVENT = (ValueError, TypeError, OverflowError, RecursionError)
"""What reading a row raises where it is none: JSON may be nested deeply, and 1e999 is a number."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


def misplaced(capture: str, record: FullRecord, partitions: int) -> FullRecord:
    """The dead letter for an event that names a partition which is not there: no log would take it."""
    topic, key, value, headers, partition = record
    reason = f"topic {topic} has no partition {partition}, only {partitions}"
    return dead_letters.dead(capture, (topic, key, value, headers or []), reason)


class Router:
    """One outbox table of one capture."""

    def __init__(self, capture: str, table: str, columns: Sequence[str]) -> None:
        names = [column.lower() for column in columns]
        missing = [name for name in REQUIRED if name not in names]
        if missing:
            raise Misconfigured(
                f"outbox {table} has no column {', '.join(missing)}",
                hint=f"an outbox has {', '.join(REQUIRED)}, and may have {', '.join(OPTIONAL)}",
            )
        unknown = [name for name in names if name not in (*REQUIRED, *OPTIONAL)]
        if unknown:
            raise Misconfigured(
                f"outbox {table} has a column {unknown[0]!r} that no event has a place for",
                hint=f"put it into the payload or into headers; other columns are {', '.join(OPTIONAL)}",
            )
        self._table = table
        self._names = names
        self._capture = capture
        self.dead_letters = dead_letters.topic_of(capture, of_outbox=True)

    def inserted(self, values: Sequence[Any]) -> FullRecord:
        """The event of a new row (values in the order of the columns: text, bytes, numbers, None)."""
        row = dict(zip(self._names, values, strict=True))
        try:
            return self._event(row)
        except NO_EVENT as error:
            return self._dead(row, str(error))

    def updated(self, values: Sequence[Any]) -> FullRecord:
        """An event was sent and cannot be changed; what somebody tried is kept."""
        row = dict(zip(self._names, values, strict=True))
        return self._dead(row, "the row was updated; an event is inserted once")

    def message(self, content: bytes) -> FullRecord:
        """The event of a message that is a JSON object with the columns' names."""
        try:
            given = json.loads(content)
            unknown = set(given) - set(self._names)
            if not isinstance(given, dict) or unknown or given.get("aggregateid") is None:
                raise ValueError(
                    f"{', '.join(sorted(map(str, unknown))) or 'aggregateid'}: see docs"
                )
            return self._event({name: given.get(name) for name in self._names})
        except NO_EVENT as error:
            reason = f"the message is no event: {error}"
            return self._dead({"aggregateid": None, "content": content}, reason)

    def _event(self, row: Mapping[str, Any]) -> FullRecord:
        headers: Headers = [("id", _data(row["id"])), ("eventType", _data(row["type"]))]
        partition = row.get("partition")
        return (
            _topic(row),
            _data(row["aggregateid"]),
            _data(row["payload"]),
            headers + _given(row.get("headers")),
            BY_KEY if partition is None else _partition(partition),
        )

    def _dead(self, row: Mapping[str, Any], reason: str) -> FullRecord:
        shown = {
            name: value.hex() if isinstance(value, bytes) else value for name, value in row.items()
        }
        key, content = _shown(row["aggregateid"]), _shown(shown)
        return dead_letters.dead(self._capture, (self._table, key, content, []), reason)


def _topic(row: Mapping[str, Any]) -> str:
    topic = row.get("topic")
    if topic is None:
        topic = f"{PREFIX}{row['aggregatetype']}" if row["aggregatetype"] else ""
    topic = topic.decode() if isinstance(topic, bytes) else str(topic)
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise ValueError(f"{topic!r} is no topic: up to 249 letters, digits and . _ -")
    return topic


def _partition(value: Any) -> int:
    number = int(value)
    if not 0 <= number < 1 << 31:
        raise ValueError(f"{number} is no partition: they are numbered from 0 on")
    return number


def _given(text: Any) -> Headers:
    if text is None:
        return []
    try:
        members = json.loads(text) if isinstance(text, (str, bytes)) else text
        for name in members:
            str(name).encode()  # half of a character would stop the producer
        return [(str(name), _data(value)) for name, value in members.items()]
    except (AttributeError, *NO_EVENT):
        raise ValueError('headers are no JSON object, such as {"name": "value"}') from None


def _shown(value: Any) -> bytes | None:
    """The same for a dead letter, which must come about whatever the value is."""
    try:
        return _data(value)
    except NO_EVENT:
        text = value if isinstance(value, str) else json.dumps(value, default=str)
        return text.encode(errors="replace")


def _data(value: Any) -> bytes | None:
    """A value as the bytes of a record: text and bytes as they are, anything else as JSON."""
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
