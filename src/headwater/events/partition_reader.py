"""Committed records of one partition, as lines, at the speed of the decoder. Blocking; for threads.

Owners read their partition when they take it over, `history` and `follow` whenever asked. Short ranges
are decoded in plain Python; long ones column by column in compiled code (`headwater.client.decode`), where
numba and pyarrow are installed. Both leave out markers and aborted transactions.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

from headwater.client import batches
from headwater.client import cluster as connect
from headwater.client.cluster import READ_COMMITTED, Cluster, TopicPartition
from headwater.client.errors import NotThere
from headwater.events.errors import BadTopic
from headwater.record import records

LONG = 20_000
"""From so many offsets on, the compiled decoder is worth its import."""


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
    cluster: Cluster,
    place: TopicPartition,
    start: int,
    end: int,
    key: bytes | None = None,
    *,
    is_whole: bool = True,
) -> Iterator[Chunk]:
    """From `start` up to, not including, `end`; with a key, only its records.

    Raises BadTopic where the log does not go back to `start`, unless `is_whole` is False: for what expires.
    """
    first = cluster.list_offsets({place: connect.EARLIEST})[place]
    if start < min(first, end) and is_whole:
        raise BadTopic(
            f"{place[0]}-{place[1]} begins at offset {first}: what was before is deleted",
            hint="events add up only from the first one on; restore the topic from a backup. History must "
            "be kept: retention.ms=-1, and nobody may delete records",
        )
    start = max(start, first)
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
    try:
        yield from batches.read_records(cluster, place, start, end)
    except NotThere as gone:
        raise BadTopic(
            str(gone), hint="history must be kept: retention.ms=-1, and nobody may delete records"
        ) from None


def _compiled() -> bool:
    return find_spec("numba") is not None and find_spec("pyarrow") is not None


def _columns(
    cluster: Cluster, place: TopicPartition, start: int, end: int, key: bytes | None
) -> Iterator[Chunk]:
    import pyarrow as pa

    from headwater.client.decode.columns import Bounds, Columns
    from headwater.client.fetch import Fetcher

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
