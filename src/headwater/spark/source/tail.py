"""The end of some topics, followed by the driver itself: read once, for everybody who is near it.

Queries that follow tables ask for what lies between their position and the end (`newer`). What one of them
makes this read is kept for the others, in pieces, as long as somebody may want it; who is further behind, or
waits for more than a piece may hold, reads by itself (`RangeReader`) until it is near. One that is at the end
waits in a request of the broker's (`wait`), on behalf of all the others: nobody looks again and again.

Bounds: PIECE_RECORDS in a piece; KEPT_RECORDS, KEPT_BYTES and KEPT_PIECES of all that are kept, but for the
newest. What a look costs does not depend on how many those are. A batch has no more than the source's
`maxOffsetsPerTrigger`, but for one piece.
"""

from __future__ import annotations

import threading
import weakref
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.client import cluster as connect
from headwater.client.constants import TopicPartition
from headwater.spark.source.arrival import Arrival
from headwater.spark.source.position import Position, offsets
from headwater.spark.source.stream import StreamReader
from headwater.spark.source.task import read

PIECE_RECORDS = 20_000
KEPT_RECORDS = 100_000
KEPT_BYTES = 64 << 20
KEPT_PIECES = 2_000
"""At the end of a topic a piece has one record or two."""
Json = dict[str, Any]
"""A position as Spark keeps it."""


class RangeReader:
    """Plans and reads ranges of topics on the driver, as Spark's source does in its tasks."""

    def __init__(self, options: Mapping[str, str], schema: pa.Schema) -> None:
        from pyspark.sql.types import StructType

        self.stream = StreamReader(options, StructType())
        self.schema = schema

    def close(self) -> None:
        """Its connections; it makes new ones where it is asked again."""
        connect.cluster(self.stream.options.client).close()

    def initial(self) -> Json:
        return self.stream.initialOffset()

    def stop_at_what_is_there(self) -> None:
        """For who wants to come to an end: what comes later is not seen."""
        self.stream.prepareForTriggerAvailableNow()

    def end_after(self, start: Json) -> Json | None:
        """Where the next batch from there ends; None if there is nothing."""
        end = self.stream.latestOffset(start, self.stream.getDefaultReadLimit())
        # A topic that was made again may have as many records as the one before.
        begun_anew = end is not start and Position.from_json(end).new
        return None if offsets(end) == offsets(start) and not begun_anew else end

    def records(self, start: Json, end: Json) -> Iterator[pa.RecordBatch]:
        for task in self.stream.partitions(start, end):
            yield from read(task, self.stream.options, self.schema)


@dataclass
class Piece:
    """Records between two positions; `made` is what readers made of them, to be shared."""

    start: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]
    records: list[pa.RecordBatch]
    made: dict[Any, Any] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def count(self) -> int:
        return sum(batch.num_rows for batch in self.records)

    @cached_property
    def oldest_ms(self) -> int | None:
        """The timestamp of the oldest record."""
        stamps = pa.chunked_array([b["timestamp"] for b in self.records], pa.timestamp("us", "UTC"))
        oldest = pc.min(stamps.cast(pa.int64())).as_py()
        return None if oldest is None else int(oldest) // 1000

    @cached_property
    def bytes(self) -> int:
        return sum(batch.nbytes for batch in self.records)


@dataclass(frozen=True)
class Newer:
    """What is newer than a position, in pieces of which the first may begin before it."""

    end: Json
    pieces: tuple[Piece, ...]

    def oldest_ms(self, start: Mapping[TopicPartition, int]) -> int | None:
        """When the oldest record was written; None where there are others from before the position."""
        if any(
            piece.start.get(place, 0) < o for piece in self.pieces for place, o in start.items()
        ):
            return None
        stamps = [piece.oldest_ms for piece in self.pieces]
        return min((each for each in stamps if each is not None), default=None)


class Tail:
    """For all queries with the same options; any thread may ask."""

    def __init__(self, options: Mapping[str, str], schema: pa.Schema) -> None:
        # A connection of its own, and the same one for every tail of these topics that ever was.
        name = zlib.crc32(repr(sorted(options.items())).encode())
        client = f"{options.get('kafka.client.id', 'headwater')}-tail-{name:08x}"
        own = {**options, "kafka.client.id": client, "files": "false"}
        self._reader = RangeReader(own, schema)
        self._lock = threading.Lock()
        self._end: Json | None = None
        self._pieces: deque[Piece] = deque()
        self._records = self._bytes = 0
        """Of the pieces that are kept."""
        self._arrival = Arrival(
            self._reader.stream.options.client, self._reader.stream.options.isolation
        )
        weakref.finalize(self, _close, self._reader, self._arrival)

    def begin(self, position: Json) -> None:
        """Somebody who read by itself has come to this place: others may go on from there."""
        with self._lock:
            if self._end is None or not self._covers(position):
                self._forget(position)

    def newer(self, start: Json) -> Newer | None:
        """What is there after a position that is near the end; None if it must be read apart."""
        with self._lock:
            if self._end is None or not self._covers(start):
                return None
            if not self._look():
                return None
            assert self._end is not None
            begin = offsets(start)
            found = self._limited(self._after(begin))
            if not found:
                return Newer(start, ())
            ids = Position.from_json(self._end).ids
            # Who has read by itself may be further in a partition than where these pieces end.
            end = {place: max(o, begin[place]) for place, o in found[-1].end.items()}
            return Newer(Position(end, ids).to_json(), found)

    def _after(self, start: Mapping[TopicPartition, int]) -> list[Piece]:
        """The pieces that reach beyond a position: none that is older than one which does not."""
        beyond = list(
            takewhile(lambda piece: _reaches_beyond(piece, start), reversed(self._pieces))
        )
        return beyond[::-1]

    def _limited(self, pieces: list[Piece]) -> tuple[Piece, ...]:
        """As many as a batch may have: at least one."""
        most, count, taken = self._reader.stream.options.max_offsets or KEPT_RECORDS, 0, 0
        for piece in pieces:
            count += piece.count
            if taken and count > most:
                break
            taken += 1
        return tuple(pieces[:taken])

    def wait(self, start: Json, stopped: threading.Event) -> None:
        """Until something may have come after this position, or it is time to look all the same."""
        self._arrival.wait_long(offsets(start), stopped)

    def _covers(self, start: Json) -> bool:
        assert self._end is not None
        wanted, end = Position.from_json(start), Position.from_json(self._end)
        first = self._pieces[0].start if self._pieces else end.offsets
        return (
            wanted.ids == end.ids
            and wanted.offsets.keys() == end.offsets.keys()
            and all(first[place] <= o <= end.offsets[place] for place, o in wanted.offsets.items())
        )

    def _look(self) -> bool:
        """Read what has come since; False if that is no business of everybody's."""
        assert self._end is not None
        end = self._reader.end_after(self._end)
        if end is None:
            return True
        begin, until = Position.from_json(self._end), Position.from_json(end)
        count = sum(o - begin.offsets.get(place, 0) for place, o in until.offsets.items())
        if until.new or until.ids != begin.ids or count > PIECE_RECORDS:
            self._forget(None)
            return False
        records = list(self._reader.records(self._end, end))
        self._keep(Piece(begin.offsets, until.offsets, records))
        self._end = Position(until.offsets, until.ids).to_json()
        return True

    def _keep(self, piece: Piece) -> None:
        self._pieces.append(piece)
        self._records, self._bytes = self._records + piece.count, self._bytes + piece.bytes
        while len(self._pieces) > 1 and (
            self._records > KEPT_RECORDS
            or self._bytes > KEPT_BYTES
            or len(self._pieces) > KEPT_PIECES
        ):
            oldest = self._pieces.popleft()
            self._records, self._bytes = self._records - oldest.count, self._bytes - oldest.bytes

    def _forget(self, end: Json | None) -> None:
        """Begin anew, at this place."""
        self._pieces.clear()
        self._records = self._bytes = 0
        self._end = end


def _close(reader: RangeReader, arrival: Arrival) -> None:
    """When nobody follows these topics any more."""
    reader.close()
    arrival.close()


def _reaches_beyond(piece: Piece, start: Mapping[TopicPartition, int]) -> bool:
    return any(o > start.get(place, 0) for place, o in piece.end.items())
