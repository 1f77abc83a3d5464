"""The changes of a view as a topic, VIEW.changes: compacted, one partition, one transaction for each look.

    key      the row's key as text          headers   headwater-position: how far the view was
    value    the row as JSON; none: gone

The latest record of each key is the view as it was last told; so whoever writes here begins by reading it
back, and goes on exactly, whatever happened in between. Another process that begins to write fences this one.
Any Kafka client can follow the topic as well. Everything here blocks; one thread at a time.

Also here: what has changed in a view since it was last told: its rows now against a digest of each row
then. Pure.

A store says what its rows are, not what they were; sixteen bytes for each row are enough to know. Nothing is
known to have been told before `told` says that the changes are stored.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import orjson

from headwater.client import ranges, settings
from headwater.client.errors import InstanceFenced, RequestRefused, told, translated
from headwater.client.librdkafka import FENCED, KafkaError, KafkaException, Producer
from headwater.client.log import SCAN_BYTES, TIMEOUT_S, Log
from headwater.client.position import Position
from headwater.client.topics import ensure
from headwater.edges.feeds.bodies import POSITION_HEADER
from headwater.errors import HeadwaterError
from headwater.pipelines.view_rows import Rows

if TYPE_CHECKING:
    from headwater.client.records import Record


SUFFIX = ".changes"
TRANSACTION_S = 600
_NAME = re.compile(r"[A-Za-z0-9._-]{1,240}")
_FENCED = FENCED | {KafkaError.INVALID_PRODUCER_ID_MAPPING}


def topic_of(view: str) -> str:
    if not _NAME.fullmatch(view):
        raise RequestRefused(
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

        Raises InstanceFenced: another process writes now. After any error, open it again.
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
        with told(f"reading the settings of {self.topic}", self._client.bootstrap):
            policy = settings.of_topic(self._client.admin, self.topic)["cleanup.policy"].value
        if numbers != [0] or policy != "compact":
            raise self._not_ours("it is not compacted with one partition")

    def _of_view(self, record: Record) -> Change:
        if record.key is None or not any(n == POSITION_HEADER for n, _ in record.headers):
            raise self._not_ours(f"record {record.offset} was written by somebody else")
        return record.key, record.value

    def _not_ours(self, why: str) -> RequestRefused:
        return RequestRefused(
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
            return InstanceFenced(f"another process writes {self.topic} now")
        return translated(error, f"writing {self.topic}", self._client.bootstrap)


ROWS_MAX = 2_000_000

Change = tuple[bytes, bytes | None]
"""A key and its row as JSON; None: it is not there any more."""


class Known:
    """Of one view: what its readers have been told."""

    def __init__(self, view: str, rows_max: int = ROWS_MAX) -> None:
        self._view, self._rows_max = view, rows_max
        self._digests: dict[bytes, bytes] = {}
        self._pending: dict[bytes, bytes | None] = {}

    def __len__(self) -> int:
        return len(self._digests)

    def learn(self, changes: Iterable[Change]) -> None:
        """These have been told."""
        for key, row in changes:
            if row is None:
                self._digests.pop(key, None)
            else:
                self._digests[key] = _digest(row)

    def changes(self, rows: Iterable[tuple[bytes, bytes]]) -> Iterator[Change]:
        """What must be told so that readers have exactly these rows; deletions come last.

        Raises RequestRefused beyond the bound of rows.
        """
        self._pending = {}
        gone = set(self._digests)
        for number, (key, row) in enumerate(rows):
            if number >= self._rows_max:
                raise RequestRefused(
                    f"the view {self._view!r} has more than {self._rows_max:,} rows to compare",
                    hint="follow the topics that it reads, or make a smaller view of it",
                )
            gone.discard(key)
            digest = _digest(row)
            if self._digests.get(key) != digest:
                self._pending[key] = digest
                yield key, row
        for key in sorted(gone):
            self._pending[key] = None
            yield key, None

    def told(self) -> None:
        """The changes that were last asked for, all of them, are stored."""
        for key, digest in self._pending.items():
            if digest is None:
                self._digests.pop(key, None)
            else:
                self._digests[key] = digest
        self._pending = {}


def _digest(row: bytes) -> bytes:
    return hashlib.blake2b(row, digest_size=16).digest()
