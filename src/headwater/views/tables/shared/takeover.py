"""State that one machine kept in its DuckDB file, brought into shared files once: a move to a cluster.

Called by `upkeep` before the first batch, where there is such a file and no manifest yet. The driver reads
the file in pieces of bounded size. What the view holds is computed by executors from these tables, since a
digest of DuckDB's says nothing to Spark. A batch of which nobody knows whether its target has it comes along
as the changes and the difference that were written down for it. The file *must* stay as it is until the
manifest is there; then it is removed.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.views.tables import journal, pending_batch
from headwater.views.tables.pending_batch import Entry
from headwater.views.tables.plan import Plan
from headwater.views.tables.shared.chain import DATA
from headwater.views.tables.shared.difference import ViewLayout
from headwater.views.tables.shared.manifest import Manifest, Piece, Pieces
from headwater.views.tables.shared.pieces import Files, Layout
from headwater.views.tables.store import FILE, Difference, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.views.tables.shared.steps import Function

ROWS_AT_ONCE = 200_000


def has_file(folder: Path) -> bool:
    return (folder / FILE).exists()


def taken_over(
    plan: Plan,
    folder: Path,
    files: Files,
    layouts: Sequence[Layout],
    view: ViewLayout,
    function: Function,
) -> Manifest:
    """What the driver's file has, as files that executors read; `files` are in the same folder."""
    state = plan.state(folder, in_memory=False)
    try:
        # That of the state's last batch as well: an earlier version has put it there too soon.
        begun = state.begun(state.batch + 1) or state.last()
        batch = state.batch if begun is None else begun.batch
        attempt = f"{batch}-{uuid.uuid4().hex[:12]}"
        out = Out(folder / DATA, attempt, batch)
        tables = tuple(_table(state.store, n, out, begun) for n in range(len(plan.tables)))
    finally:
        state.close()
    held = _held(plan, tables, files, layouts, view, function, f"{attempt}/held", batch)
    found = Manifest(plan.query, batch, tables, held)
    if begun is None:
        return found
    name = f"{attempt}/difference"
    files.write(_difference(begun.difference, files, view, batch), name)
    count = begun.difference.rows.num_rows + begun.difference.gone.num_rows
    return Manifest(plan.query, batch, tables, held, Piece(name, count))


def remove_file(folder: Path) -> None:
    """It is in the manifest, and would only mislead from now on."""
    for name in (
        journal.FILE,
        pending_batch.FILE,
        f"{FILE}.wal",
        FILE,
    ):  # while that is there, so is a sign
        (folder / name).unlink(missing_ok=True)


@dataclass(frozen=True)
class Out:
    """Where the driver writes."""

    folder: Path
    attempt: str
    batch: int

    def write(self, name: str, schema: pa.Schema, parts: Iterable[pa.Table]) -> Piece:
        place = f"{self.attempt}/{name}"
        (self.folder / place).mkdir(parents=True)
        rows = 0
        with pq.ParquetWriter(self.folder / place / "part-0.parquet", schema) as writer:
            for some in parts:
                writer.write_table(some.select(schema.names).cast(schema))
                rows += some.num_rows
        return Piece(place, rows)


def _table(store: Store, number: int, out: Out, begun: Entry | None) -> Pieces:
    """What the file has, and above it what the batch that was begun does: the file itself *must* stay as it
    is, since its batch counts there as one that the target has."""
    columns = pa.schema([*store.tables[number].columns, ("p", pa.int32()), ("ts", pa.int64())])
    # Of a row that is gone, only the key is known.
    nullable = [field.with_nullable(True) for field in columns]
    schema = pa.schema([*nullable, ("gone", pa.bool_()), ("b", pa.int64())])
    known = out.write(f"t{number}", schema, _rows(store, number, columns.names, out.batch - 1))
    pieces = [known]
    if begun is not None and number in begun.changes:
        changes = begun.changes[number]
        marks = pa.array([out.batch] * changes.num_rows, pa.int64())
        pieces.append(out.write(f"t{number}-begun", schema, [changes.append_column("b", marks)]))
    return Pieces(None, tuple(piece for piece in pieces if piece.rows))


def _rows(store: Store, number: int, names: Sequence[str], batch: int) -> Iterator[pa.Table]:
    (end,) = store.rows(f"SELECT coalesce(max(rowid), -1) FROM t{number}")[0]
    for start in range(0, int(end) + 1, ROWS_AT_ONCE):
        yield store.arrow(
            f"SELECT {', '.join(names)}, false AS gone, {batch}::BIGINT AS b FROM t{number} "
            f"WHERE rowid >= {start} AND rowid < {start + ROWS_AT_ONCE}"
        )


def _held(
    plan: Plan,
    tables: Sequence[Pieces],
    files: Files,
    layouts: Sequence[Layout],
    view: ViewLayout,
    function: Function,
    name: str,
    batch: int,
) -> Pieces:
    from pyspark.sql import functions as F  # noqa: N812

    given: Mapping[int, DataFrame] = {
        n: files.rows(pieces, layouts[n])
        .select(*(f"c{c}" for c in range(len(plan.tables[n].row.names))))
        .toDF(*plan.tables[n].row.names)
        for n, pieces in enumerate(tables)
    }
    fresh = view.fresh(function(files.spark, given)).select(*view.held.columns.names)
    marked = fresh.withColumn("gone", F.lit(False)).withColumn("b", F.lit(batch).cast("long"))
    files.write(marked, name)
    count = files.read([name], view.held.columns).count()
    return Pieces(None, (Piece(name, count),)) if count else Pieces()


def _difference(found: Difference, files: Files, view: ViewLayout, batch: int) -> DataFrame:
    """What was written down, under the names of a difference's file."""
    from pyspark.sql import functions as F  # noqa: N812

    from headwater.views.tables.follower import with_deletes
    from headwater.views.targets.contract import DELETED

    rows = files.spark.createDataFrame(with_deletes(found, found.rows.schema))
    named = rows.toDF(*view.stored.names, DELETED)
    own = [F.col(each.name).cast(each.dataType).alias(each.name) for each in view.stored.fields]
    more = [F.lit(None).cast("string").alias("h"), F.col(DELETED).alias("gone")]
    more += [F.lit(1).cast("long").alias("times"), F.lit(batch).cast("long").alias("b")]
    return named.select(*own, *more)
