"""`headwater verify` as an application: a session, the view, the comparison, and a note of its outcome.

A view compared with the log at one position, while both go on; and repaired where it differs.

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
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.client.position import Position
from headwater.errors import HeadwaterError
from headwater.pipelines import application
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.comparison import Comparison
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import NotVerifiable, PipelineError, brief
from headwater.pipelines.handles import handle, placed, the_view
from headwater.pipelines.loader import load, read
from headwater.pipelines.maven import connector_for
from headwater.pipelines.plan import plan_of
from headwater.pipelines.session import require_pyspark
from headwater.pipelines.stores import kind_of, shape_of, store_of
from headwater.pipelines.table_views import result_of
from headwater.views import order
from headwater.views.operate import verification_log
from headwater.views.operate.differences import Report
from headwater.views.operate.repair import Repair, has_copies, must_be_repairable, repair_rows
from headwater.views.operate.versions import versions_of
from headwater.views.tables.replaying import Kept
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
    require_pyspark()
    sources = read(order.paths)
    spark = application._session(order, connector_for(sources, order.remote))
    try:
        view = the_view(name, placed(load(sources), targets or {}))
        application._carry_functions(order.paths)
        return verified(order, spark, view, say, repair=repair, version=version)
    finally:
        with suppress(Exception):  # where Spark has ended there is nothing to stop
            spark.stop()


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
    known = versions_of(handle(view))
    view = replace(view, version=known.current if version is None else known.named(version))
    checkpoints = Checkpoints(order.checkpoints, spark, remote=order.remote is not None)
    checking = Checking(
        view=view,
        spark=spark,
        context=lambda at: Context(spark, order.bootstrap, order.client, view=view, pinned=at),
        checkpoint=Path(checkpoints.of(view.checkpoint)) if checkpoints.is_local else None,
        say=say,
        local=order.remote is None and (order.master or "local").startswith("local"),
    )
    report = verify(checking, repair=repair)
    if report.is_right:
        where = (view.name, view.version, view.where)
        client = {**order.client, "bootstrap.servers": order.bootstrap}
        verification_log.note(client, *where, report.position, report.rows)
    return report


NAMED_MOST = 10_000
_COUNT = "_count"


@dataclass(frozen=True)
class Checking:
    """What verifying one view needs."""

    view: View
    """With the version that is to be looked at."""
    spark: SparkSession
    context: Callable[[Position], Context]
    """Makes a context whose inputs end at a position."""
    checkpoint: Path | None
    """The folder of the running query's checkpoint, where it is on this machine."""
    say: Callable[[str], None]
    local: bool = True
    """Whether Spark's executors see this machine's files."""
    keep: Kept = field(default_factory=Kept)


def verify(checking: Checking, *, repair: bool = False) -> Report:
    """Compare, and where asked write the corrections."""
    began = time.monotonic()
    shape, target = _opened(checking)
    if repair:
        must_be_repairable(shape)
    with ExitStack() as scratch:
        scratch.callback(checking.keep.forget)
        folder = scratch.enter_context(tempfile.TemporaryDirectory(prefix="headwater-verify-"))
        applied, found = _taken(checking, target, Path(folder))
        checking.say(f"the view is at {applied.position}")
        pair = Comparison(_expected(checking, applied.position, shape), found, shape)
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
            remarks=_remarks(shape),
        )
        if not repair or not report.differing:
            return report
        if pair.has_copies:
            raise has_copies(shape)
        repaired = repair_rows(
            Repair(
                target,
                applied,
                pair.differences,
                lambda position, keys: _expected_of(checking, position, shape, keys),
                checking.checkpoint,
                checking.say,
            )
        )
    return replace(report, repaired=repaired, seconds=time.monotonic() - began)


# ---- the two sides -------------------------------------------------------------------------------


def _opened(checking: Checking) -> tuple[Shape, Target]:
    """The view's shape as its function says, and its target."""
    view = checking.view
    frame = _called(checking, Position())
    if view.mode == "append" and "Aggregate" in plan_of(frame).kinds():
        raise NotVerifiable(
            f"the view {view.name!r} shows a group only once its watermark has passed, so the log up to "
            "a position does not say what it must hold",
            hint="views in mode update can be compared",
        )
    shape = shape_of(view, frame)
    return shape, store_of(view, shape)


def _called(checking: Checking, position: Position) -> DataFrame:
    view = checking.view
    try:
        return result_of(view, checking.context(position), checking.keep)
    except HeadwaterError:
        raise
    except Exception as error:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) cannot be computed from the log as a whole: "
            f"{brief(error)}"
        ) from error


def _expected(checking: Checking, position: Position, shape: Shape) -> DataFrame:
    """What the view must hold: its function over everything, and of each key the last row."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = _called(checking, position)
    names = [F.col(order.quoted(name)) for name in shape.schema.names]
    if shape.kind is Kind.APPEND:
        return _counted(frame.select(*names))
    rows = order.arranged(frame, replace(shape, kind=Kind.UPSERT))
    keys = [F.col(order.quoted(name)) for name in shape.key]
    for key in keys:
        rows = rows.where(key.isNotNull())
    last = F.max_by(F.struct(*names, "_deleted"), order.order_of(shape)).alias("_row")
    grouped = rows.groupBy(*(key.alias(f"_by_{n}") for n, key in enumerate(keys))).agg(last)
    return grouped.where("NOT _row._deleted").select("_row.*").drop("_deleted")


def _counted(frame: DataFrame) -> DataFrame:
    """Rows without a key: each is its own key, and how often it is there is its value."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.groupBy(*(order.quoted(n) for n in frame.columns)).agg(F.count("*").alias(_COUNT))


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
        found = checking.spark.read.parquet(str(file))
    else:
        found = checking.spark.createDataFrame(pq.read_table(file))
    if kind_of(view) is Kind.HISTORY:
        found = found.where("current")
    found = found.select(*(order.quoted(name) for name in target.shape.schema.names))
    return applied, _counted(found) if kind_of(view) is Kind.APPEND else found


def _expected_of(
    checking: Checking, position: Position, shape: Shape, keys: pa.Table
) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F  # noqa: N812

    wanted = F.broadcast(checking.spark.createDataFrame(keys))
    rows = _expected(checking, position, shape).join(wanted, list(shape.key), "left_semi")
    table = rows.select(*(order.quoted(n) for n in shape.schema.names)).toArrow()
    return [dict(row) for row in table.cast(shape.schema).to_pylist()]


def _remarks(shape: Shape) -> list[str]:
    said = "Of a history the current rows are compared, not the ones before."
    return [said] if shape.kind is Kind.HISTORY else []
