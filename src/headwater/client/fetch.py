"""Record batches over the network: Fetch from a partition's leader, one piece after the other.

`task` asks for pieces by offset. The next request is on its way before a piece is handed out, so that
the broker and the network work while the piece is decoded. Asking by topic id (Fetch 13 and newer) is
what tells a topic from another one that was made under its name. Not in a fetch session (KIP-227): a
task asks for one partition.

Fetch answer, 12 to 17:  throttle int32 | error int16 | session int32 | topics: name or id | partitions:
    index int32 | error int16 | high watermark int64 | last stable offset int64 | log start int64 |
    aborted: (producer int64 | first offset int64) | preferred replica int32 | records
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

import struct
import time
import uuid

import numpy as np
from kio.schema.errors import ErrorCode

from headwater.client import connection, data_loss
from headwater.client.batches import request
from headwater.client.cluster import EARLIEST, LATEST, Cluster
from headwater.client.connection import Connection, Disconnected
from headwater.client.decode import headers
from headwater.client.decode.memory import pool
from headwater.client.error_codes import TryAgain, check
from headwater.client.piece import Piece
from headwater.wire.guard import unsigned_varint

PIECE_BYTES = 16 * 1024 * 1024
PIECE_BYTES_MIN = 256 * 1024
WAIT_MS = 500
_NO_TOPIC = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.inconsistent_topic_id,
)
_FROM_NAMES, _FROM_IDS = 12, 17
_TOP = struct.Struct(">ihi")
_PARTITION = struct.Struct(">ihqqq")
_LARGE_BYTES = 1024 * 1024
_ABORTED = struct.Struct(">qq")


class OutOfRange(Exception):
    """The offset is not in the log (any more), which has those from `start` up to `end`."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(f"the log has offsets {start} to {end}")
        self.start, self.end = start, end


class Fetcher:
    """Reads one range of one partition from its leader."""

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        topic_id: str,
        partition: int,
        end: int,
        isolation: int,
        leader: int = -1,
        use: str = "fetch",
    ) -> None:
        self._cluster = cluster
        self._topic, self._partition = topic, partition
        self._id = uuid.UUID(topic_id) if topic_id else None
        self._end = end
        self._isolation = isolation
        self._leader = leader
        self._use = use
        self._most = int(cluster.settings.get("max.partition.fetch.bytes", PIECE_BYTES))
        self._record_bytes = 0.0
        self._asked: tuple[Connection, int] | None = None

    def piece(self, position: int) -> Piece:
        """Batches from that offset on; never empty. Raises OutOfRange and DataLoss."""
        stalled: list[float] = []

        def attempt() -> Piece:
            try:
                return self._fetch(position, stalled)
            except (Disconnected, TryAgain):
                self._asked = None
                self._leader = -1
                raise

        return self._cluster.retrying(attempt)

    def close(self) -> None:
        """Leave the connection as it was found: without an answer on its way."""
        if self._asked is not None:
            used, _ = self._asked
            self._asked = None
            try:
                while used.pending:
                    used.receive_frame()
            except Disconnected:
                self._cluster.forget()

    def _fetch(self, position: int, stalled: list[float]) -> Piece:
        if self._asked is None or self._asked[1] != position:
            self.close()
            self._ask(position)
        assert self._asked is not None
        used, _ = self._asked
        frame, start, _, version = used.receive_frame(_room)
        self._asked = None
        error, ends, records, aborted = _parse(frame, start, version)
        if error is ErrorCode.offset_out_of_range:
            raise OutOfRange(self._edge(EARLIEST), self._edge(LATEST))
        if error in _NO_TOPIC:
            raise self._missing()
        check(error, f"reading {self._topic}-{self._partition}")
        if not len(records):
            self._note_stall(position, ends[self._isolation], stalled)
            raise TryAgain(f"{self._topic}-{self._partition} has nothing at offset {position}")
        piece = Piece(np.frombuffer(records, np.uint8), aborted)
        self._run_ahead(position, piece)
        return piece

    def _run_ahead(self, position: int, piece: Piece) -> None:
        table, used_bytes = headers.scan(piece.data, self._end)
        if not len(table):
            return
        following = int(table[-1, headers.BASE_OFFSET] + table[-1, headers.LAST_DELTA]) + 1
        self._record_bytes = used_bytes / max(following - position, 1)
        if following < self._end:
            self._ask(following)

    def _ask(self, position: int) -> None:
        if self._leader < 0:
            found = self._cluster.metadata([self._topic]).topics.get(self._topic)
            if found is None:
                raise self._missing()
            self._leader = found.leaders.get(self._partition, -1)
            if self._leader < 0:
                raise TryAgain(f"{self._topic}-{self._partition} has no leader")
        used = self._cluster.node(self._leader, self._use)
        if used.pending:  # what an interrupted task left behind
            self._cluster.forget()
            used = self._cluster.node(self._leader, self._use)
        most = self._size(position)
        place = (self._topic, self._partition)
        body = request({place: position}, self._isolation, most, WAIT_MS, self._id)
        used.send(connection.FETCH, body, _FROM_IDS if self._id else _FROM_NAMES)
        self._asked = (used, position)

    def _size(self, position: int) -> int:
        """No more than the rest of the range seems to need: other tasks read what is behind it."""
        if not self._record_bytes:
            return self._most
        rest = int((self._end - position) * self._record_bytes * 1.05) + PIECE_BYTES_MIN
        return min(self._most, rest)

    def _edge(self, which: int) -> int:
        place = (self._topic, self._partition)
        return self._cluster.list_offsets({place: which})[place]

    def _missing(self) -> Exception:
        """Gone, made again, or (Apache Kafka, just started) not known yet?"""
        found = self._cluster.metadata([self._topic]).topics.get(self._topic)
        if found is None or self._partition not in found.leaders:
            return data_loss.deleted(self._topic, self._partition)
        if self._id is not None and found.id.int and found.id != self._id:
            return data_loss.made_again(self._topic)
        return TryAgain(f"the broker does not know {self._topic}-{self._partition} yet")

    def _note_stall(self, position: int, end: int, stalled: list[float]) -> None:
        """The log ends before the range does: wait a while, a restarted broker may catch up."""
        if end > position:
            return
        stalled.append(time.monotonic())
        if stalled[-1] - stalled[0] > self._cluster.deadline_s / 2:
            raise data_loss.ends_before(self._topic, self._partition, end, self._end)


def _room(size: int) -> memoryview:
    """Answers with records come in one size, over and over: fresh memory would cost more than they."""
    if size >= _LARGE_BYTES:
        return pool.take(size, np.uint8).data
    return memoryview(bytearray(size))


def _parse(
    frame: memoryview, at: int, version: int
) -> tuple[ErrorCode, tuple[int, int], memoryview, list[tuple[int, int, int | None]]]:
    """Error, (high watermark, last stable offset), records and aborted transactions."""
    nothing: tuple[tuple[int, int], memoryview, list[tuple[int, int, int | None]]]
    nothing = ((0, 0), memoryview(b""), [])
    _, error, _ = _TOP.unpack_from(frame, at)
    topics, at = unsigned_varint(frame, at + _TOP.size)
    if error or topics < 2:
        return ErrorCode(error or ErrorCode.unknown_topic_or_partition), *nothing
    if version >= 13:
        at += 16
    else:
        size, at = unsigned_varint(frame, at)
        at += size - 1
    partitions, at = unsigned_varint(frame, at)
    if partitions < 2:
        return ErrorCode.unknown_topic_or_partition, *nothing
    _, error, high_watermark, last_stable, _ = _PARTITION.unpack_from(frame, at)
    count, at = unsigned_varint(frame, at + _PARTITION.size)
    aborted: list[tuple[int, int, int | None]] = []
    for _ in range(count - 1):
        aborted.append((*_ABORTED.unpack_from(frame, at), None))
        tags, at = unsigned_varint(frame, at + _ABORTED.size)
        if tags:
            raise ValueError("an aborted transaction with tagged fields, which nobody knows yet")
    size, at = unsigned_varint(frame, at + 4)
    records = frame[at : at + max(size - 1, 0)]
    aborted.sort(key=lambda each: each[1])
    return ErrorCode(error), (high_watermark, last_stable), records, aborted
