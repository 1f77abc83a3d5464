"""What Spark calls for each micro-batch of a view over tables, on the driver.

One query reads the records of all the view's tables, so a batch is one moment of all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from headwater.views.applying import Applying
from headwater.views.tables.bad_values import Refuse, stop
from headwater.views.tables.decoding import Decoder
from headwater.views.tables.frames import Function, computing
from headwater.views.tables.store import Difference
from headwater.views.tables.upkeep import Plan, Upkeep
from headwater.views.target import DELETED, Misfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FOLDER = "tables"
"""Below the query's checkpoint."""


class Sink(Protocol):
    """Where differences go."""

    def has(self, records: DataFrame, batch: int) -> bool | None:
        """Whether the batch is there; None where nobody can say."""

    def write(self, records: DataFrame, batch: int, difference: Difference) -> None:
        """Bring it there, unless it is; in this batch's transaction or not at all."""


class Following:
    """A view over tables and its target, batch by batch."""

    def __init__(
        self, plan: Plan, checkpoint: Path, function: Function, sink: Sink, refuse: Refuse = stop
    ) -> None:
        self.upkeep = Upkeep(plan, checkpoint / FOLDER)
        self._decode = Decoder(plan.tables, refuse)
        self._function = function
        self._sink = sink

    def __call__(self, records: DataFrame, batch: int) -> None:
        upkeep, sink = self.upkeep, self._sink
        if batch <= upkeep.store.batch:
            if sink.has(records, batch) is False:
                raise Misfit(
                    f"the state of the view {upkeep.plan.name!r} has batch {batch}, and its target has "
                    "not; build the view anew with headwater rebuild"
                )
            return
        upkeep.apply(
            batch,
            lambda: self._decode(records),
            computing(records.sparkSession, upkeep.plan, self._function, upkeep.folder),
            lambda difference: sink.write(records, batch, difference),
        )


class StoreSink:
    """A target of `headwater.views`."""

    def __init__(self, applying: Applying) -> None:
        self._applying = applying

    def has(self, records: DataFrame, batch: int) -> bool | None:
        applying = self._applying
        return not applying.is_due(batch, applying.position_of(records, batch))

    def write(self, records: DataFrame, batch: int, difference: Difference) -> None:
        applying = self._applying
        position = applying.position_of(records, batch)
        rows = with_deletes(difference, applying.target.shape.schema)
        applying.apply_rows(rows, batch, position, records.sparkSession)


class FrameSink:
    """Anything that takes a DataFrame with `_deleted`, and knows a batch that it has: a topic."""

    def __init__(self, schema: pa.Schema, write: Callable[[DataFrame], None]) -> None:
        self._schema = schema
        self._write = write

    def has(self, records: DataFrame, batch: int) -> bool | None:
        return None

    def write(self, records: DataFrame, batch: int, difference: Difference) -> None:
        rows = with_deletes(difference, self._schema)
        if rows.num_rows:
            self._write(records.sparkSession.createDataFrame(rows))


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
