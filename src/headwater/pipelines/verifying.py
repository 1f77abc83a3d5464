"""A view compared with the log at one position, while both go on; and mended where it differs.

Called by `headwater verify`. The view's rows and their position are taken in one moment (`Target.reading`);
the view's function over the topics from their beginning to that position says what they must be. Both are
compared inside Spark: a checksum for each of many ranges of the key's hash first, and only in ranges
whose sums differ row by row.

    view   reading() ─▶ scratch file ─▶ hash ─▶ sums by range ─┐
                                                               ├─▶ ranges that differ ─▶ keys
    log    topics to the position ─▶ function ─▶ hash ─▶ sums ─┘
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import HeadwaterError
from headwater.pipelines.comparing import Comparison
from headwater.pipelines.context import Context
from headwater.pipelines.declared import View
from headwater.pipelines.errors import PipelineError, brief
from headwater.pipelines.plan import plan_of
from headwater.pipelines.stores import kind_of, shape_of, store_of
from headwater.pipelines.tabled import result_of
from headwater.views import ordering
from headwater.views.mending import Mending, mend, must_be_mendable
from headwater.views.position import Position
from headwater.views.target import Applied, Kind, Shape, Target
from headwater.views.verifying import Report

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

NAMED_MOST = 10_000
_COUNT = "_count"


class NotVerifiable(HeadwaterError):
    """There is nothing to compare the view with, or nothing to compare."""


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


def verify(checking: Checking, *, repair: bool = False) -> Report:
    """Compare, and where asked write the corrections."""
    began = time.monotonic()
    shape, target = _opened(checking)
    if repair:
        must_be_mendable(shape)
    with ExitStack() as scratch:
        folder = Path(
            scratch.enter_context(tempfile.TemporaryDirectory(prefix="headwater-verify-"))
        )
        applied, found = _taken(checking, target, folder)
        checking.say(f"the view is at {applied.position}")
        pair = Comparison(_expected(checking, applied.position, shape), found, shape)
        scratch.callback(pair.forget)
        report = Report(
            view=shape.view,
            version=shape.version,
            to=checking.view.to,
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
        mended = mend(
            Mending(
                target,
                applied,
                pair.differences,
                lambda position, keys: _expected_of(checking, position, shape, keys),
                checking.checkpoint,
                checking.say,
            )
        )
    return replace(report, repaired=mended, seconds=time.monotonic() - began)


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
        return result_of(view, checking.context(position))
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
    names = [F.col(ordering.quoted(name)) for name in shape.schema.names]
    if shape.kind is Kind.APPEND:
        return _counted(frame.select(*names))
    rows = ordering.arranged(frame, replace(shape, kind=Kind.UPSERT))
    keys = [F.col(ordering.quoted(name)) for name in shape.key]
    for key in keys:
        rows = rows.where(key.isNotNull())
    last = F.max_by(F.struct(*names, "_deleted"), ordering.ORDER).alias("_row")
    grouped = rows.groupBy(*(key.alias(f"_by_{n}") for n, key in enumerate(keys))).agg(last)
    return grouped.where("NOT _row._deleted").select("_row.*").drop("_deleted")


def _counted(frame: DataFrame) -> DataFrame:
    """Rows without a key: each is its own key, and how often it is there is its value."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.groupBy(*(ordering.quoted(n) for n in frame.columns)).agg(
        F.count("*").alias(_COUNT)
    )


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
    found = found.select(*(ordering.quoted(name) for name in target.shape.schema.names))
    return applied, _counted(found) if kind_of(view) is Kind.APPEND else found


def _expected_of(
    checking: Checking, position: Position, shape: Shape, keys: pa.Table
) -> list[dict[str, Any]]:
    from pyspark.sql import functions as F  # noqa: N812

    wanted = F.broadcast(checking.spark.createDataFrame(keys))
    rows = _expected(checking, position, shape).join(wanted, list(shape.key), "left_semi")
    table = rows.select(*(ordering.quoted(n) for n in shape.schema.names)).toArrow()
    return [dict(row) for row in table.cast(shape.schema).to_pylist()]


def _remarks(shape: Shape) -> list[str]:
    if shape.kind is Kind.HISTORY:
        return ["Of a history the current rows are compared, not the ones before."]
    return []
