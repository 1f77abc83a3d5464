"""Records of a batch to the changes of each table, by executors; what cannot be read is put away there.

Read by `decoding` alone, Spark's parser: it is strict by itself. Changes are written to a file before
anything looks at them, since every table of a view would else have all of them read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from headwater.views.tables.bad_values import Refuse
from headwater.views.tables.decoding import COLUMNS, Decoder, Table, change_names, with_derived
from headwater.views.tables.shared.pieces import Files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

RECORD = ("topic", "p", "o", "timestamp")


class Reader:
    """Of one view's tables."""

    def __init__(self, tables: Sequence[Table], refuse: Refuse) -> None:
        self._tables = tables
        self._decoder = Decoder(tables)
        self._judge = Decoder(tables, refuse)
        """Goes to the tasks: it has none of Spark's expressions in it."""

    def __call__(self, records: DataFrame, files: Files, name: str) -> list[DataFrame]:
        """The changes of each table, as `netting` takes them; all bad values are away when this returns."""
        flat = self._flat(records.select(*COLUMNS))
        judge = self._judge

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pyarrow as pa

            from headwater.spark import worker

            for batch in batches:
                worker.settle()
                yield from judge.good(pa.Table.from_batches([batch])).to_batches()

        good = flat.mapInArrow(task, flat.schema).drop("bad")
        files.write(good, name)
        found = files.read([name], good.schema)
        return [self._of_table(found, n, table) for n, table in enumerate(self._tables)]

    def _flat(self, records: DataFrame) -> DataFrame:
        changes = self._decoder.frame(records, "timestamp")
        for n, table in enumerate(self._tables):
            if table.derived:
                changes = with_derived(changes, n, table)
        own = [
            f"t{n}.{name} AS t{n}{name}"
            for n, table in enumerate(self._tables)
            for name in change_names(table)
        ]
        return changes.selectExpr(*RECORD, "bad", *own)

    def _of_table(self, found: DataFrame, number: int, table: Table) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812

        own = [f"t{number}{name} AS {name}" for name in change_names(table)]
        mine = found.where(F.col("topic") == table.topic)
        return mine.selectExpr(*own, "p", "o", "unix_micros(timestamp) AS ts")
