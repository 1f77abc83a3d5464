"""Rows that a target refused: kept in the view's dead-letter topic, each once, before the batch counts.

Called by `applying` on the driver. A letter is the record that the row came from, as it is in the log, so
that it can be sent back once the target takes it (`headwater deadletters replay`); where a row is
not of one record (an aggregate), it is the row as JSON. Headers as in all dead letters (docs/queues.md):

    __dlq.errors.topic, .partition, .offset   the record; empty and -1 where there is not one
    __dlq.errors.group                        headwater-VIEW
    __dlq.errors.message                      why
    __dlq.errors.row                          the row that was refused, as JSON
    __dlq.errors.batch, .position             the micro-batch, and the view's position after it

They are written by headwater's own sink, inside the batch: a batch that comes again adds none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headwater.views import batch_name
from headwater.views.target import Applied, Refusal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADER = "__dlq.errors."
_COLUMNS = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
_Headers = list[tuple[str, bytes | None]]


class Origin(NamedTuple):
    """A record of the log."""

    topic: str
    partition: int
    offset: int


class Refused(NamedTuple):
    """A refusal, and the record that the row came from, where there is one."""

    refusal: Refusal
    origin: Origin | None


@dataclass(frozen=True)
class Letters:
    """The dead-letter topic of one view."""

    view: str
    topic: str
    options: Mapping[str, str] = field(default_factory=dict)
    """Of Spark's source and sink: `kafka.bootstrap.servers` and how to log in."""
    checkpoint: str | None = None
    """Of the view's query."""

    def put(
        self, spark: SparkSession, refused: Sequence[Refused], applied: Applied, turn: int
    ) -> None:
        """On disk when this returns. `turn`: a batch may find refused rows several times."""
        rows = [self._record(each, applied) for each in _sorted(refused)]
        frame = spark.createDataFrame(rows, _COLUMNS).coalesce(1)
        named = {"topic": self.topic, "sink": f"{self.topic}/{turn}"}
        named |= batch_name.options_for(spark, self.checkpoint, applied.batch)
        frame.write.format("headwater").mode("append").options(**self.options, **named).save()

    def _record(
        self, refused: Refused, applied: Applied
    ) -> tuple[bytes | None, bytes | None, _Headers]:
        refusal, origin = refused
        key, value, own = self._original(origin) or (None, refusal.row.encode(), [])
        topic, partition, offset = origin or ("", -1, -1)
        said = {
            "topic": topic,
            "partition": str(partition),
            "offset": str(offset),
            "group": f"headwater-{self.view}",
            "message": refusal.reason,
            "row": refusal.row,
            "batch": str(applied.batch),
            "position": str(applied.position),
        }
        ours = [(HEADER + name, text.encode()) for name, text in said.items()]
        return key, value, [*own, *ours]

    def _original(
        self, origin: Origin | None
    ) -> tuple[bytes | None, bytes | None, _Headers] | None:
        """The record as it is in the log; None where it is not there any more."""
        from headwater.spark import connect
        from headwater.spark.options import Options
        from headwater.spark.sink.committed import read

        if origin is None:
            return None
        cluster = connect.cluster(Options(self.options).client_settings())
        place = (origin.topic, origin.partition)
        for record in read(cluster, place, origin.offset, origin.offset + 1):
            own = [(k, v) for k, v in record.headers if not k.startswith(HEADER)]
            return record.key, record.value, own
        return None


def _sorted(refused: Sequence[Refused]) -> Iterator[Refused]:
    """The same ones always in the same order: the sink compares what a batch writes again."""
    return iter(sorted(refused, key=lambda each: (each.origin or ("", -1, -1), each.refusal.row)))
