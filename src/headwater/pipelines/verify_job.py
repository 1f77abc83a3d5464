"""`headwater verify` as an application: a session, the view, the comparison, and a note of its outcome.

Also here: a view compared with the log at one position, while both go on; and repaired where it differs.

The view's rows and their position are taken in one moment (`Target.reading`); the view's function over the
topics from their beginning to that position says what they must be. Both are compared inside Spark: a
checksum for each of many ranges of the key's hash first, and only in ranges whose sums differ row by row.

    view   reading() ─▶ scratch file ─▶ hash ─▶ sums by range ─┐
                                                               ├─▶ ranges that differ ─▶ keys
    log    topics to the position ─▶ function ─▶ hash ─▶ sums ─┘
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.client.position import Position
from headwater.local_path import for_spark
from headwater.pipelines import application
from headwater.pipelines.comparison import Comparison
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import NotVerifiable
from headwater.pipelines.expected_rows import (
    Checking,
    aggregates,
    checking_of,
    counted,
    opened,
    with_expected,
)
from headwater.pipelines.stores import kind_of
from headwater.pipelines.view_job import view_job
from headwater.views import order
from headwater.views.operate import verification_log
from headwater.views.operate.differences import Report
from headwater.views.operate.repair import Repair, has_copies, must_be_repairable, repair_rows
from headwater.views.targets.contract import Applied, Kind, Shape, Target

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


def verified_view(
    order: application.Order,
    name: str,
    say: Callable[[str], None],
    *,
    repair: bool = False,
    version: int | None = None,
    targets: Mapping[str, str] | None = None,
) -> Report:
    """Compare one view with the log; keep up to where it was found to be right."""
    with view_job(order, name, targets) as job:
        return verified(order, job.spark, job.view, say, repair=repair, version=version)


def verified(
    order: application.Order,
    spark: SparkSession,
    view: View,
    say: Callable[[str], None],
    *,
    repair: bool = False,
    version: int | None = None,
) -> Report:
    """As `verified_view`, with a session that is there and a view that is loaded."""
    checking = checking_of(order, spark, view, say, version)
    report = verify(checking, repair=repair)
    if report.is_right:
        where = (view.name, checking.view.version, view.where)
        client = {**order.client, "bootstrap.servers": order.bootstrap}
        verification_log.note(client, *where, report.position, report.rows)
    return report


NAMED_MOST = 10_000
ASIDE_NAMED = 20


def verify(checking: Checking, *, repair: bool = False) -> Report:
    """Compare, and where asked write the corrections."""
    began = time.monotonic()
    shape, target = opened(checking)
    if repair:
        must_be_repairable(shape)
    with ExitStack() as scratch:
        scratch.callback(checking.keep.forget)
        folder = scratch.enter_context(tempfile.TemporaryDirectory(prefix="headwater-verify-"))
        applied, found = _taken(checking, target, Path(folder))
        checking.say(f"the view is at {applied.position}")
        pair, aside = _compared(checking, applied.position, found, shape)
        scratch.callback(pair.forget)
        report = Report(
            view=shape.view,
            version=shape.version,
            to=checking.view.where,
            position=applied.position,
            rows=pair.rows,
            found=pair.found_rows,
            counts=pair.counts,
            differences=pair.differences[:NAMED_MOST],
            seconds=time.monotonic() - began,
            remarks=_remarks(shape, aside),
            aside=len(aside),
        )
        if not repair or not report.differing:
            return report
        if pair.has_copies:
            raise has_copies(shape)
        of_keys = partial(_expected_of, checking, shape)
        repaired = repair_rows(
            Repair(target, applied, pair.differences, of_keys, checking.checkpoint, checking.say)
        )
    return replace(report, repaired=repaired, seconds=time.monotonic() - began)


def _compared(
    checking: Checking, position: Position, found: DataFrame, shape: Shape
) -> tuple[Comparison, list[str]]:
    def compared(wanted: DataFrame) -> Comparison:
        return Comparison(wanted, found, shape, lambda: aggregates(checking))

    return with_expected(checking, position, shape, compared)


# ---- the two sides -------------------------------------------------------------------------------


def _taken(checking: Checking, target: Target, folder: Path) -> tuple[Applied, DataFrame]:
    """The view's rows as of one moment, out of the store's way, and how far they go."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    view, schema = checking.view, target.visible_schema()
    file = folder / "view.parquet"
    with target.reading() as (applied, batches):
        if applied is None:
            raise NotVerifiable(
                f"version {view.version} of the view {view.name!r} has not begun yet",
                hint="headwater run brings it up to date",
            )
        with pq.ParquetWriter(file, schema, compression="lz4") as writer:
            for batch in batches:
                writer.write_table(pa.Table.from_batches([batch]).select(schema.names).cast(schema))
    if checking.local:
        found = checking.spark.read.parquet(for_spark(file))
    else:
        found = checking.spark.createDataFrame(pq.read_table(file))
    if kind_of(view) is Kind.HISTORY:
        found = found.where("current")
    found = found.select(*(order.quoted(name) for name in target.shape.schema.names))
    return applied, counted(found) if kind_of(view) is Kind.APPEND else found


def _expected_of(
    checking: Checking, shape: Shape, position: Position, keys: pa.Table
) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F  # noqa: N812

    wanted = F.broadcast(checking.spark.createDataFrame(keys))
    names = [order.quoted(name) for name in shape.schema.names]

    def among(rows: DataFrame) -> pa.Table:
        return rows.join(wanted, list(shape.key), "left_semi").select(*names).toArrow()

    table, _ = with_expected(checking, position, shape, among)
    return [dict(row) for row in table.cast(shape.schema).to_pylist()]


def _remarks(shape: Shape, aside: Sequence[str]) -> list[str]:
    said = []
    if shape.kind is Kind.HISTORY:
        said.append("Of a history the current rows are compared, not the ones before.")
    if aside:
        said.append(
            f"{len(aside):,} keys are set aside: the view's function fails for them, and they have no row "
            "until a change touches them."
        )
        said += [f"Set aside: {each}" for each in aside[:ASIDE_NAMED]]
    return said
