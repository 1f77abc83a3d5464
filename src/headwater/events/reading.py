"""Committed records of one partition, as lines, at the speed of the decoder. Blocking; for threads.

Owners read their partition when they take it over, `history` and `follow` whenever asked. Short ranges
are decoded in plain Python; long ones column by column in compiled code (`headwater.spark.decode`), where
numba and pyarrow are installed. Both leave out markers and aborted transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.events.errors import BadTopic
from headwater.record import batch as batches
from headwater.record import records
from headwater.spark import connect
from headwater.spark import connection as api
from headwater.spark.connect import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Cluster,
    TopicPartition,
    TryAgain,
)

LONG = 20_000
"""From so many offsets on, the compiled decoder is worth its import."""
_FETCH_VERSION = 12
_BYTES_MAX = 4 << 20
_EMPTY_ANSWERS = 3
"""So often a broker must say that it has nothing, of what it says is stable, to be believed."""


class Chunk(NamedTuple):
    """Records that have a value, in order: `lines` are their values, one behind the other."""

    offsets: list[int]
    times: list[int]
    """Milliseconds."""
    lines: bytes


def ends(cluster: Cluster, place: TopicPartition) -> tuple[int, int]:
    """The first offset that there is, and the last stable one."""
    known = cluster.metadata([place[0]])
    first = cluster.list_offsets({place: connect.EARLIEST}, metadata=known)[place]
    return first, cluster.list_offsets({place: connect.LATEST}, READ_COMMITTED, known)[place]


def at_time(cluster: Cluster, place: TopicPartition, ms: int) -> int:
    """The first offset whose record is not older; the end where there is none."""
    found = cluster.list_offsets({place: max(ms, 0)})[place]
    return ends(cluster, place)[1] if found < 0 else found


def read(
    cluster: Cluster, place: TopicPartition, start: int, end: int, key: bytes | None = None
) -> Iterator[Chunk]:
    """From `start` up to, not including, `end`; with a key, only its records."""
    start = max(start, cluster.list_offsets({place: connect.EARLIEST})[place])
    if start >= end:
        return
    if end - start >= LONG and _compiled():
        yield from _columns(cluster, place, start, end, key)
    else:
        for found in pieces(cluster, place, start, end):
            kept = [r for r in found if r.value is not None and (key is None or r.key == key)]
            if kept:
                yield _chunk(kept)


def tombstones(cluster: Cluster, place: TopicPartition, start: int, end: int) -> set[bytes]:
    """The keys of records without a value."""
    found = (record for piece in pieces(cluster, place, start, end) for record in piece)
    return {record.key for record in found if record.value is None and record.key is not None}


def _chunk(kept: list[records.Record]) -> Chunk:
    lines = b"".join([r.value for r in kept if r.value is not None])
    return Chunk([r.offset for r in kept], [r.timestamp for r in kept], lines)


def pieces(
    cluster: Cluster, place: TopicPartition, start: int, end: int
) -> Iterator[list[records.Record]]:
    """The committed records, as they come; in plain Python."""
    position, node = start, _Node(cluster, place)
    while position < end:
        data, ahead = _fetch(cluster, place, position, end, node)
        if not data:
            return
        aborted: set[int] = set()
        found: list[records.Record] = []
        for at, header in batches.scan(data):
            while ahead and ahead[0][1] <= header.last_offset:
                aborted.add(ahead.pop(0)[0])
            position = header.next_offset
            if header.is_control:
                aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                found += [r for r in records.decode(data, at) if start <= r.offset < end]
        yield found


class _Node:
    """Who leads: asked once, and again after a failure."""

    def __init__(self, cluster: Cluster, place: TopicPartition) -> None:
        self._cluster, self._place = cluster, place
        self._id = -1

    def ask(self, body: dict[str, Any]) -> Any:
        """For use inside `retrying`."""
        known, self._id = self._id, -1
        if known < 0:
            known = leader(self._cluster, self._place)
        answer = self._cluster.node(known).ask(api.FETCH, body, _FETCH_VERSION)
        connect.check(answer.error_code, f"reading {self._place[0]}")
        (found,) = answer.responses[0].partitions
        if found.error_code is ErrorCode.none:
            self._id = known
        return found


def _request(place: TopicPartition, offset: int, isolation: int) -> dict[str, Any]:
    asked = {
        "partition": place[1],
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": _BYTES_MAX,
    }
    return {
        "replica_id": -1,
        "max_wait": 100,
        "min_bytes": 1,
        "max_bytes": _BYTES_MAX,
        "isolation_level": isolation,
        "session_epoch": -1,
        "topics": [{"topic": place[0], "partitions": [asked]}],
        "forgotten_topics_data": [],
    }


def uncommitted(cluster: Cluster, place: TopicPartition, offset: int) -> bytes:
    """Whole batches from this offset on, markers and aborted ones too; none where there are no more."""
    body, node = _request(place, offset, READ_UNCOMMITTED), _Node(cluster, place)

    def attempt() -> bytes:
        found = node.ask(body)
        connect.check(found.error_code, f"reading {place[0]}")
        return bytes(found.records or b"")

    return cluster.retrying(attempt)


def _fetch(
    cluster: Cluster, place: TopicPartition, offset: int, end: int, node: _Node
) -> tuple[bytes, list[tuple[int, int]]]:
    """Whole batches, and the transactions among them that were aborted; nothing where compaction or
    excision has left nothing up to `end`."""
    asked = 0
    body = _request(place, offset, READ_COMMITTED)

    def attempt() -> tuple[bytes, list[tuple[int, int]]]:
        found = node.ask(body)
        if found.error_code is ErrorCode.offset_out_of_range:
            raise BadTopic(
                f"{place[0]}-{place[1]} has no offset {offset} any more",
                hint="history must be kept: retention.ms=-1, and nobody may delete records",
            )
        connect.check(found.error_code, f"reading {place[0]}")
        if not found.records:
            nonlocal asked
            asked += 1
            if asked >= _EMPTY_ANSWERS and found.last_stable_offset >= end:
                return b"", []
            raise TryAgain(f"{place[0]}-{place[1]} has nothing to read at {offset} yet")
        named = [(each.producer_id, each.first_offset) for each in found.aborted_transactions or ()]
        return bytes(found.records), sorted(named, key=lambda each: each[1])

    return cluster.retrying(attempt)


def leader(cluster: Cluster, place: TopicPartition) -> int:
    """The node that leads; for use inside `retrying`."""
    known = cluster.metadata([place[0]]).topics.get(place[0])
    node = -1 if known is None else known.leaders.get(place[1], -1)
    if node < 0:
        raise TryAgain(f"{place[0]}-{place[1]} has no leader")
    return node


def _compiled() -> bool:
    return find_spec("numba") is not None and find_spec("pyarrow") is not None


def _columns(
    cluster: Cluster, place: TopicPartition, start: int, end: int, key: bytes | None
) -> Iterator[Chunk]:
    import pyarrow as pa

    from headwater.spark.decode.columns import Bounds, Columns
    from headwater.spark.source.fetching import Fetcher

    names = ["value", "offset", "timestamp", *(["key"] if key is not None else [])]
    types = {"offset": pa.int64(), "timestamp": pa.timestamp("us")}
    schema = pa.schema([(name, types.get(name, pa.binary())) for name in names])
    columns = Columns(schema, place[0], place[1], Bounds(start, end))
    topic = cluster.metadata([place[0]]).topics[place[0]]
    topic_id = str(topic.id) if topic.id.int else ""
    fetcher = Fetcher(cluster, place[0], topic_id, place[1], end, READ_COMMITTED)
    try:
        while columns.next_offset < end:
            piece = fetcher.piece(columns.next_offset)
            for batch in columns.decode(piece.data, piece.aborted):
                if (chunk := _of_columns(batch, key)) is not None:
                    yield chunk
    finally:
        fetcher.close()


def _of_columns(batch: Any, key: bytes | None) -> Chunk | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    if key is not None:
        batch = batch.filter(pc.equal(batch.column("key"), pa.scalar(key, pa.binary())))
    if batch.column("value").null_count:
        batch = batch.filter(pc.is_valid(batch.column("value")))
    if not batch.num_rows:
        return None
    values = batch.column("value")
    _, places, data = values.buffers()
    bounds = memoryview(places).cast("i")
    first, last = bounds[values.offset], bounds[values.offset + len(values)]
    times = batch.column("timestamp").cast(pa.int64()).to_numpy()
    return Chunk(
        batch.column("offset").to_numpy().tolist(),
        (times // 1000).tolist(),
        bytes(memoryview(data)[first:last]),
    )
