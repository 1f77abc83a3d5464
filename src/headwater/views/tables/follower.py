"""Each batch of a view over tables, on the driver: from its changes to its target.

One query reads the records of all the view's tables, so a batch is one moment of all of them. Called by
`pipelines.driver_query`; by Spark itself (`__call__`) where a view asks for what only a query of Spark's has:
an interval, or whole source transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from headwater.client.constants import TopicPartition
from headwater.views.applier import Applying
from headwater.views.tables.bad_values import Refuse, stop
from headwater.views.tables.decoder import COLUMNS, Table
from headwater.views.tables.envelopes import EnvelopeDecoder, is_utc
from headwater.views.tables.frames import computing
from headwater.views.tables.kept_plan import Function
from headwater.views.tables.plan import Plan
from headwater.views.tables.record_reader import Read, TableReader
from headwater.views.tables.set_aside import NOBODY, Blame, Compute
from headwater.views.tables.store import Difference
from headwater.views.tables.upkeep import Upkeep
from headwater.views.targets.contract import DELETED, Misfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.spark.source.tail import Newer, Piece

FOLDER = "tables"
"""Below the query's checkpoint."""


class Sink(Protocol):
    """Where differences go."""

    def has(self, spark: SparkSession, batch: int) -> bool | None:
        """Whether the batch is there; None where nobody can say."""

    def write(self, spark: SparkSession, batch: int, difference: Difference) -> None:
        """Bring it there, unless it is; in this batch's transaction or not at all."""


class Aside(Protocol):
    """What becomes of keys for which the view's function fails."""

    @property
    def blame(self) -> Blame: ...

    def put(self, spark: SparkSession, batch: int, keys: pa.Table) -> None:
        """Write their dead letters, each once; their reasons are the last column."""


class Following:
    """A view over tables and its target, batch by batch."""

    keeps_state = True

    def __init__(
        self,
        plan: Plan,
        checkpoint: Path,
        function: Function,
        sink: Sink,
        refuse: Refuse = stop,
        spark: SparkSession | None = None,
        aside: Aside | None = None,
    ) -> None:
        """Without `aside`, a key for which the function fails ends the query."""
        self._aside = aside
        self._blame = NOBODY if aside is None else aside.blame
        self.upkeep = Upkeep(plan, checkpoint / FOLDER, blame=self._blame)
        self._function = function
        self._sink = sink
        self._refuse = refuse
        self._spark = spark
        self._decoder: EnvelopeDecoder | None = None
        self._said: list[Said] = []
        self._compute: tuple[SparkSession, Compute] | None = None

    def close(self) -> None:
        self.upkeep.close()

    def __call__(self, records: DataFrame, batch: int) -> None:
        spark = records.sparkSession
        self._spark = self._spark or spark
        self.apply(
            batch,
            lambda view: view.decode(records.select(*COLUMNS).toArrow().to_batches()),
            spark,
        )

    def apply(
        self,
        batch: int,
        changes: Callable[[Following], Sequence[pa.Table]],
        spark: SparkSession,
    ) -> None:
        """Bring a batch into the target and the state, unless they have it."""
        upkeep, sink = self.upkeep, self._sink
        if batch <= upkeep.batch:
            if sink.has(spark, batch) is False:
                raise Misfit(
                    f"the state of the view {upkeep.plan.name!r} has batch {batch}, and its target has "
                    "not; rebuild the view with headwater rebuild"
                )
            return
        upkeep.apply(
            batch,
            lambda: changes(self),
            self._computing(spark),
            lambda difference: self._write(spark, batch, difference),
        )

    def _write(self, spark: SparkSession, batch: int, difference: Difference) -> None:
        """Bring a batch into the target, behind the letters of what it has set aside."""
        aside = difference.aside
        if aside is not None and aside.num_rows and self._aside is not None:
            self._aside.put(spark, batch, aside)
        self._sink.write(spark, batch, difference)

    def warm_up(self) -> None:
        """Let Spark plan and compile the view's function before the first change waits for it."""
        assert self._spark is not None
        store = self.upkeep.store
        compute = self._computing(self._spark)
        compute({n: store.nothing_of(n) for n in range(len(store.tables))})

    def _computing(self, spark: SparkSession) -> Compute:
        # Spark hands its one session of a query to every batch in another wrapping.
        known = self._compute
        if known is None or not _is_same(known[0], spark):
            made = computing(spark, self.upkeep.plan, self._function, self.upkeep.folder)
            known = self._compute = spark, made
        return known[1]

    # ---- changes of a batch ---------------------------------------------------------------------

    def decode(self, records: Iterable[pa.RecordBatch]) -> list[pa.Table]:
        """Of records that only this view has read."""
        return self._decode(records)

    def shared(self, newer: Newer, start: Mapping[TopicPartition, int]) -> list[pa.Table]:
        """Of records that others have as well: each table of a piece is read by whoever comes first."""
        decode = self._decode
        reads = [
            [_cut(read_once(piece, said, read), piece, read.topic, start) for piece in newer.pieces]
            for said, read in zip(self._said, decode.readers, strict=True)
        ]
        return decode.finish(reads)

    @property
    def _decode(self) -> EnvelopeDecoder:
        if self._decoder is None:
            assert self._spark is not None
            tables, utc = self.upkeep.plan.tables, is_utc(self._spark)
            self._decoder = EnvelopeDecoder(tables, self._spark, self._refuse, self._blame)
            self._said = [all_said_of(table, utc=utc) for table in tables]
        return self._decoder


def _is_same(one: SparkSession, other: SparkSession) -> bool:
    """Without asking Java where nobody has to."""
    return one is other or bool(one._jsparkSession == other._jsparkSession)


Said = tuple[object, ...]


def all_said_of(table: Table, *, utc: bool) -> Said:
    """All that a view says of a table, but what it derives from it: readers look at no more."""
    said = {each.name: getattr(table, each.name) for each in fields(table)}
    return utc, *(said | {"row": table.row.json(), "derived": ()}).values()


def read_once(piece: Piece, said: Said, read: TableReader) -> Read:
    """By whoever comes first; for all who say the same of the table."""
    with piece.lock:
        if said not in piece.made:
            found = [read(batch) for batch in piece.records]
            piece.made[said] = Read(
                pa.concat_tables([read.empty(), *(each.changes for each in found)]),
                [record for each in found for record in each.doubtful],
            )
        made: Any = piece.made[said]
        return made


def _cut(read: Read, piece: Piece, topic: str, start: Mapping[TopicPartition, int]) -> Read:
    """What of a piece lies behind a position."""
    begin = {p: o for (name, p), o in start.items() if name == topic}
    if all(piece.start.get((topic, p), 0) >= o for p, o in begin.items()):
        return read
    end = {p: o for (name, p), o in piece.end.items() if name == topic}
    return read.between(begin, end)


class StoreSink:
    """A target of `headwater.views`."""

    def __init__(self, applying: Applying) -> None:
        self._applying = applying

    def has(self, spark: SparkSession, batch: int) -> bool | None:
        applying = self._applying
        known, position = applying.begin(), applying.position_of(spark, batch)
        if known is not None and batch < known.batch and known.position.covers(position):
            return True  # one of several whose commits a crash has lost
        return not applying.is_due(batch, position)

    def write(self, spark: SparkSession, batch: int, difference: Difference) -> None:
        applying = self._applying
        position = applying.position_of(spark, batch)
        rows = with_deletes(difference, applying.target.shape.schema)
        applying.apply_rows(rows, batch, position, spark)


class FrameSink:
    """Anything that takes a DataFrame with `_deleted`, and knows a batch that it has: a topic."""

    def __init__(self, schema: pa.Schema, write: Callable[[DataFrame], None]) -> None:
        self._schema = schema
        self._write = write

    def has(self, spark: SparkSession, batch: int) -> bool | None:
        return None

    def write(self, spark: SparkSession, batch: int, difference: Difference) -> None:
        rows = with_deletes(difference, self._schema)
        if rows.num_rows:
            self._write(spark.createDataFrame(rows))


def with_deletes(difference: Difference, schema: pa.Schema) -> pa.Table:
    """A difference as targets take it: the view's columns, and whether the key has no row any more."""
    gone, count = difference.gone, difference.gone.num_rows
    missing = {
        field.name: gone[field.name].cast(field.type)
        if field.name in gone.column_names
        else pa.nulls(count, field.type)
        for field in schema
    }
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    rows = pa.concat_tables([difference.rows.cast(nullable), pa.table(missing).cast(nullable)])
    marks = [False] * difference.rows.num_rows + [True] * count
    return rows.append_column(DELETED, pa.array(marks, pa.bool_()))
