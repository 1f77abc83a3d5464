"""The batches of a partition over the raw protocol, whole and in order, and the records in them.

    for batch in read(cluster, ("orders", 0), start, end):
        batch.header, batch.records()

The one Fetch request that everybody sends, and the one account of aborted transactions. `fetch.Fetcher` reads
the same far ahead, for compiled decoders; `verdict`, `key_search` and whoever moves batches read here.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import uuid
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.client import connection as api
from headwater.client.cluster import READ_COMMITTED, Cluster, TopicPartition
from headwater.client.connection import Connection
from headwater.client.error_codes import TryAgain, check
from headwater.client.errors import NotThere
from headwater.client.leader import Leader
from headwater.record import batch as batches
from headwater.record import control, records
from headwater.record.batch import BatchHeader
from headwater.record.errors import CorruptBatch, InvalidBatch
from headwater.record.records import Record

VERSION = 12
"""The last that takes a topic's name; those after it take only its id."""
PIECE_BYTES = 4 << 20
WAIT_MS = 100
_EMPTY_ANSWERS = 3
"""So often a broker must say that it has nothing, of what it says can be read, to be believed."""


def request(
    position: Mapping[TopicPartition, int],
    isolation: int,
    bytes_max: int = PIECE_BYTES,
    wait_ms: int = WAIT_MS,
    topic_id: uuid.UUID | None = None,
) -> dict[str, Any]:
    """The body of a Fetch outside of a fetch session (KIP-227); `topic_id`, where all is of one topic."""
    topics: dict[str, list[dict[str, int]]] = {}
    for (topic, partition), offset in position.items():
        wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": bytes_max}
        unknown = {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
        topics.setdefault(topic, []).append(wanted | unknown)
    return {
        "replica_id": -1,
        "max_wait": wait_ms,
        "min_bytes": 1,
        "max_bytes": bytes_max,
        "isolation_level": isolation,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [
            {"topic": name, "topic_id": topic_id, "partitions": asked}
            for name, asked in topics.items()
        ],
        "forgotten_topics_data": [],
    }


class Piece(NamedTuple):
    """An answer: whole batches (the last may be cut off), and what was aborted among them."""

    data: memoryview
    aborted: list[tuple[int, int]]
    """(first offset, producer id), by offset."""
    end: int
    """Up to where this reader may read: the last stable offset, or the high watermark."""


def fetch(
    leader: Leader,
    offset: int,
    isolation: int = READ_COMMITTED,
    bytes_max: int = PIECE_BYTES,
    wait_ms: int = WAIT_MS,
) -> Piece:
    """What is there from this offset on, perhaps nothing. Raises NotThere for an offset that is gone."""
    body = request({leader.place: offset}, isolation, bytes_max, wait_ms)

    def attempt(connection: Connection) -> Piece:
        answer = connection.ask(api.FETCH, body, VERSION)
        check(answer.error_code, f"reading {leader}")
        (found,) = answer.responses[0].partitions
        if found.error_code is ErrorCode.offset_out_of_range:
            raise NotThere(f"{leader} has no offset {offset} any more")
        check(found.error_code, f"reading {leader} at {offset}")
        named = ((each.first_offset, each.producer_id) for each in found.aborted_transactions or ())
        committed = isolation == READ_COMMITTED
        end = found.last_stable_offset if committed else found.high_watermark
        return Piece(memoryview(found.records or b""), sorted(named), end)

    return leader.ask(attempt)


class Batch(NamedTuple):
    """One batch in the piece that it came with. `is_aborted`: readers of committed data skip it."""

    piece: memoryview
    at: int
    header: BatchHeader
    is_aborted: bool = False

    @property
    def is_data(self) -> bool:
        """Whether a reader of committed data is shown its records."""
        return not self.header.is_control and not self.is_aborted

    def raw(self) -> bytes:
        """Its bytes as they are stored."""
        return bytes(self.piece[self.at : self.at + self.header.size])

    def payload(self) -> bytes:
        """Its records, uncompressed."""
        return bytes(batches.payload(self.piece, self.at))

    def check(self) -> None:
        """Raises CorruptBatch if its bytes are not those that were written."""
        batches.check_crc(self.piece, self.at, self.header)

    def records(self) -> list[Record]:
        return records.decode(self.piece, self.at)


def read(
    cluster: Cluster,
    place: TopicPartition,
    start: int,
    end: int,
    isolation: int = READ_COMMITTED,
    bytes_max: int = PIECE_BYTES,
) -> Iterator[Batch]:
    """Every batch with offsets from `start` up to, not including, `end`: markers and aborted ones too.

    It ends before `end` where compaction or excision has left nothing up to there.
    """
    position, aborted, leader = start, _Aborted(), Leader(cluster, place)
    while position < end:
        piece = _some(leader, position, end, isolation, bytes_max)
        if piece is None:
            return
        aborted.learn(piece.aborted)
        before = position
        for at, header in batches.scan(piece.data):
            if header.base_offset >= end:
                return
            if header.next_offset <= position:
                continue
            yield Batch(piece.data, at, header, aborted.meets(header, piece.data, at))
            position = header.next_offset
        if position == before:
            raise CorruptBatch(f"no whole batch at offset {position} of {leader}")


def read_records(
    cluster: Cluster, place: TopicPartition, start: int, end: int
) -> Iterator[list[Record]]:
    """The committed records of a range, as many at a time as one answer brings."""
    for _, together in groupby(read(cluster, place, start, end), lambda batch: id(batch.piece)):
        yield [
            record
            for batch in together
            if batch.is_data
            for record in batch.records()
            if start <= record.offset < end
        ]


def _some(leader: Leader, position: int, end: int, isolation: int, bytes_max: int) -> Piece | None:
    """None where the rest of the range is a hole."""
    empty = 0

    def attempt() -> Piece | None:
        nonlocal empty
        piece = fetch(leader, position, isolation, bytes_max)
        if piece.data:
            return piece
        empty += 1
        if empty >= _EMPTY_ANSWERS and piece.end >= end:
            return None
        raise TryAgain(f"{leader} has nothing to read at {position} yet")

    return leader.cluster.retrying(attempt)


class _Aborted:
    """Which producers are inside an aborted transaction, as a consumer keeps track of them."""

    def __init__(self) -> None:
        self._coming: set[tuple[int, int]] = set()
        self._over: set[tuple[int, int]] = set()
        self._now: set[int] = set()

    def learn(self, named: list[tuple[int, int]]) -> None:
        self._coming.update(each for each in named if each not in self._over)

    def meets(self, header: BatchHeader, data: memoryview, at: int) -> bool:
        for first, producer in sorted(self._coming):
            if first <= header.last_offset:
                self._coming.discard((first, producer))
                self._over.add((first, producer))
                self._now.add(producer)
        if header.is_control:
            if _aborts(data, at):
                self._now.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._now


def _aborts(data: memoryview, at: int) -> bool:
    try:
        return control.read_marker(data, at).kind == control.ABORT
    except InvalidBatch:
        return False
