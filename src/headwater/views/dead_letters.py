"""Rows that a target refused: kept in the view's dead-letter topic, each once, before the batch counts.

Called by `applier` on the driver. A letter is the record that the row came from, as it is in the log, so
that it can be sent back once the target takes it (`headwater deadletters replay`); where a row is
not of one record (an aggregate), it is the row as JSON, under the row's key. The form is that of all dead
letters (`record.dead_letter`); the group is headwater-VIEW, and besides there are:

    __dlq.errors.row                          the row that was refused, as JSON
    __dlq.errors.batch, .position             the micro-batch, and the view's position after it

They are written by headwater's own sink, inside the batch: a batch that comes again adds none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headwater.client import dead_letters
from headwater.client.dead_letters import Cause, Letter
from headwater.views import batch_name
from headwater.views.targets.contract import Applied, Refusal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_Headers = list[tuple[str, bytes | None]]


class Origin(NamedTuple):
    """A record of the log."""

    topic: str
    partition: int
    offset: int


class RefusedRow(NamedTuple):
    """A refusal, and the record that the row came from, where there is one."""

    refusal: Refusal
    origin: Origin | None
    key: bytes | None = None
    """The text of the row's key, for a letter that has no record."""


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
        self, spark: SparkSession, refused: Sequence[RefusedRow], applied: Applied, turn: int
    ) -> None:
        """On disk when this returns. `turn`: a batch may find refused rows several times."""
        rows = [self._record(each, applied) for each in _sorted(refused)]
        frame = spark.createDataFrame(rows, dead_letters.COLUMNS).coalesce(1)
        named = {"topic": self.topic, "sink": f"{self.topic}/{turn}"}
        named |= batch_name.options_for(spark, self.checkpoint, applied.batch)
        frame.write.format("headwater").mode("append").options(**self.options, **named).save()

    def _record(self, refused: RefusedRow, applied: Applied) -> Letter:
        refusal, origin, own_key = refused
        key, value, own = self._original(origin) or (own_key, refusal.row.encode(), [])
        topic, partition, offset = origin or ("", -1, -1)
        more = {
            "row": refusal.row,
            "batch": str(applied.batch),
            "position": str(applied.position),
        }
        group = f"headwater-{self.view}"
        cause = Cause(group, refusal.reason, topic, partition, offset, more=more)
        return dead_letters.letter(key, value, own, cause)

    def _original(
        self, origin: Origin | None
    ) -> tuple[bytes | None, bytes | None, _Headers] | None:
        """The record as it is in the log; None where it is not there any more."""
        from headwater.client import cluster as connect
        from headwater.client.options import Options
        from headwater.client.verdict import read

        if origin is None:
            return None
        cluster = connect.cluster(Options(self.options).client_settings())
        place = (origin.topic, origin.partition)
        for record in read(cluster, place, origin.offset, origin.offset + 1):
            return record.key, record.value, list(record.headers)
        return None


def _sorted(refused: Sequence[RefusedRow]) -> Iterator[RefusedRow]:
    """The same ones always in the same order: the sink compares what a batch writes again."""
    return iter(sorted(refused, key=lambda each: (each.origin or ("", -1, -1), each.refusal.row)))
