"""The changes of a view as a topic, VIEW.changes: compacted, one partition, one transaction for each look.

    key      the row's key as text          headers   headwater-position: how far the view was
    value    the row as JSON; none: gone

The latest record of each key is the view as it was last told; so whoever writes here begins by reading it
back, and goes on exactly, whatever happened in between. Another process that begins to write fences this one.
Any Kafka client can follow the topic as well. Everything here blocks; one thread at a time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import orjson
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import ConfigResource

from headwater.browse import ranges
from headwater.browse.errors import Refused, told, translated
from headwater.browse.log import SCAN_BYTES, TIMEOUT_S, Log
from headwater.browse.making import ensure
from headwater.edges.feeds.bodies import POSITION_HEADER
from headwater.edges.feeds.differences import Change, Known
from headwater.edges.rows import Rows
from headwater.errors import HeadwaterError
from headwater.views.position import Position
from headwater.views.target import Fenced

if TYPE_CHECKING:
    from headwater.browse.records import Record

SUFFIX = ".changes"
TRANSACTION_S = 600
_NAME = re.compile(r"[A-Za-z0-9._-]{1,240}")
_FENCED = (
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
)


def topic_of(view: str) -> str:
    if not _NAME.fullmatch(view):
        raise Refused(
            f"{view!r} cannot be part of a topic's name, so its changes have no topic",
            hint="name the view with letters, digits, . _ and -",
        )
    return view + SUFFIX


class ViewChanges:
    """The only writer of one view's changes, while it lasts."""

    def __init__(self, log: Log, view: str, rows: Rows) -> None:
        self._client, self._view, self._rows = log, view, rows
        self.topic = topic_of(view)
        self._known = Known(view)
        self._producer: Producer | None = None

    def open(self) -> None:
        """Make the topic where it is missing, become its writer, and know what it tells."""
        self._make()
        producer = self._client.new_producer(
            transactional_id=f"headwater-view-{self._view}",
            transaction_timeout_ms=TRANSACTION_S * 1000,
            message_timeout_ms=60_000,
            compression_type="lz4",
        )
        try:
            producer.init_transactions(TIMEOUT_S)
        except KafkaException as failure:
            raise self._said(failure) from None
        self._producer = (
            producer  # from here on nobody else writes, so what is read is all there is
        )
        self._known = Known(self._view)
        for records in ranges.read(
            self._client, self.topic, self._client.ranges(self.topic), SCAN_BYTES
        ):
            self._known.learn(self._of_view(record) for record in records)

    def look(self) -> tuple[Position | None, int]:
        """Tell what has changed since the last look. How far the view is, and how many changes.

        Raises Fenced: another process writes now. After any error, open it again.
        """
        assert self._producer is not None, "open() comes first"
        with self._rows.all() as (position, rows):
            lines = ((row.key.encode(), orjson.dumps(row.fields)) for row in rows)
            count = self._append(self._known.changes(lines), position)
        self._known.told()
        return position, count

    def close(self) -> None:
        self._producer = None

    # ---- the topic --------------------------------------------------------------------------------

    def _make(self) -> None:
        if ensure(self._client, self.topic, 1, cleanup_policy="compact"):
            return
        numbers = self._client.partitions(self.topic)
        resource = ConfigResource(ConfigResource.Type.TOPIC, self.topic)
        with told(f"reading the settings of {self.topic}", self._client.bootstrap):
            asked = self._client.admin.describe_configs([resource], request_timeout=TIMEOUT_S)
            policy = asked[resource].result()["cleanup.policy"].value
        if numbers != [0] or policy != "compact":
            raise self._not_ours("it is not compacted with one partition")

    def _of_view(self, record: Record) -> Change:
        if record.key is None or not any(n == POSITION_HEADER for n, _ in record.headers):
            raise self._not_ours(f"record {record.offset} was written by somebody else")
        return record.key, record.value

    def _not_ours(self, why: str) -> Refused:
        return Refused(
            f"the topic {self.topic} cannot hold the changes of the view {self._view!r}: {why}",
            hint="delete the topic, or rename the view",
        )

    # ---- one transaction --------------------------------------------------------------------------

    def _append(self, changes: Iterator[Change], position: Position | None) -> int:
        """All of them or none; no transaction where there is nothing to tell."""
        producer, count = self._producer, 0
        assert producer is not None
        headers = [(POSITION_HEADER, str(position or "").encode())]
        try:
            for key, row in changes:
                if not count:
                    producer.begin_transaction()
                count += 1
                self._produce(producer, key, row, headers)
            if count:
                producer.commit_transaction(TRANSACTION_S)
        except KafkaException as failure:
            raise self._said(failure) from None
        except BaseException:
            if count:
                producer.abort_transaction(TIMEOUT_S)
            raise
        return count

    def _produce(
        self,
        producer: Producer,
        key: bytes,
        row: bytes | None,
        headers: list[tuple[str, bytes]],
    ) -> None:
        while True:
            try:
                producer.produce(self.topic, row, key, headers=headers)  # type: ignore[arg-type]
                producer.poll(0)
                return
            except BufferError:
                producer.poll(0.05)

    def _said(self, failure: KafkaException) -> HeadwaterError:
        error = failure.args[0]
        if error.code() in _FENCED:
            return Fenced(f"another process writes {self.topic} now")
        return translated(error, f"writing {self.topic}", self._client.bootstrap)
