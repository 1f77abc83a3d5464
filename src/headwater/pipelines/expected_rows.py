"""What a view must hold at a position, computed from the log as a whole.

Called by `verify_job`, which compares it with what the view holds, and by `past_rows`, which shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.client.position import Position
from headwater.errors import HeadwaterError
from headwater.pipelines import application
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import NotVerifiable, PipelineError, brief
from headwater.pipelines.handles import handle
from headwater.pipelines.plan import plan_of
from headwater.pipelines.stores import shape_of, store_of
from headwater.pipelines.table_views import result_of
from headwater.views import order
from headwater.views.operate.versions import versions_of
from headwater.views.tables.replay import Kept
from headwater.views.targets.contract import Kind, Shape, Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COUNT = "_count"
"""Of rows without a key: how often each is there."""


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


def checking_of(
    order: application.Order,
    spark: SparkSession,
    view: View,
    say: Callable[[str], None],
    version: int | None = None,
) -> Checking:
    """For a version of a view; none: the one that readers see."""
    known = versions_of(handle(view))
    view = replace(view, version=known.current if version is None else known.named(version))
    checkpoints = Checkpoints(order.checkpoints, spark, remote=order.remote is not None)
    schemas = checkpoints.of(view.checkpoint)
    made = Context(spark, order.bootstrap, order.client, view=view, schemas_at=schemas)
    return Checking(
        view=view,
        spark=spark,
        context=lambda at: replace(made, pinned=at, streams=[], tables=[]),
        checkpoint=Path(checkpoints.of(view.checkpoint)) if checkpoints.is_local else None,
        say=say,
        local=order.remote is None and (order.master or "local").startswith("local"),
    )


def opened(checking: Checking) -> tuple[Shape, Target]:
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


def expected(checking: Checking, position: Position, shape: Shape) -> DataFrame:
    """What the view must hold: its function over everything, and of each key the last row."""
    from pyspark.sql import functions as F  # noqa: N812

    frame = _called(checking, position)
    names = [F.col(order.quoted(name)) for name in shape.schema.names]
    if shape.kind is Kind.APPEND:
        return counted(frame.select(*names))
    rows = order.arranged(frame, replace(shape, kind=Kind.UPSERT))
    keys = [F.col(order.quoted(name)) for name in shape.key]
    for key in keys:
        rows = rows.where(key.isNotNull())
    last = F.max_by(F.struct(*names, "_deleted"), order.order_of(shape)).alias("_row")
    grouped = rows.groupBy(*(key.alias(f"_by_{n}") for n, key in enumerate(keys))).agg(last)
    return grouped.where("NOT _row._deleted").select("_row.*").drop("_deleted")


def aggregates(checking: Checking) -> bool:
    """Whether the view adds up rows, in an order that is Spark's own."""
    return bool({"Aggregate", "Window"} & plan_of(_called(checking, Position())).kinds())


def counted(frame: DataFrame) -> DataFrame:
    """Rows without a key: each is its own key, and how often it is there is its value."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.groupBy(*(order.quoted(n) for n in frame.columns)).agg(F.count("*").alias(COUNT))
