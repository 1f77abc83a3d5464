"""What a view must hold at a position, computed from the log as a whole.

Called by `verify_job`, which compares it with what the view holds, and by `past_rows`, which shows it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headwater.client.position import Position
from headwater.errors import HeadwaterError
from headwater.pipelines import application
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.context import Context, within
from headwater.pipelines.declarations import FAIL, View
from headwater.pipelines.errors import NotVerifiable, PipelineError, brief
from headwater.pipelines.failed_keys import blame, told
from headwater.pipelines.handles import handle
from headwater.pipelines.plan import plan_of
from headwater.pipelines.stores import shape_of, store_of
from headwater.pipelines.table_views import on_frames, plan_for, replayed, result_of, tried
from headwater.views import order
from headwater.views.operate.versions import versions_of
from headwater.views.tables.replay import Kept
from headwater.views.targets.contract import Kind, Shape, Target

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from headwater.views.tables.decoder import Table
    from headwater.views.tables.store import Difference

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


Used = TypeVar("Used")


def with_expected(
    checking: Checking, position: Position, shape: Shape, use: Callable[[DataFrame], Used]
) -> tuple[Used, list[str]]:
    """What is made of what the view must hold, and the keys that are set aside, each with its reason."""
    from headwater.views.tables.set_aside import NOBODY

    rest = NOBODY if checking.view.on_refused == FAIL else blame()
    found, why = rest.tried(lambda: (use(expected(checking, position, shape)),))
    if found is not None:
        return found[0], []
    with tempfile.TemporaryDirectory(prefix="headwater-by-key-") as folder:
        rows, aside = _by_key(checking, position, Path(folder), why)
        names = (order.quoted(name) for name in shape.schema.names)
        return use(rows.select(*names)), aside


def aggregates(checking: Checking) -> bool:
    """Whether the view adds up rows, in an order that is Spark's own."""
    return bool({"Aggregate", "Window"} & plan_of(_called(checking, Position())).kinds())


def counted(frame: DataFrame) -> DataFrame:
    """Rows without a key: each is its own key, and how often it is there is its value."""
    from pyspark.sql import functions as F  # noqa: N812

    return frame.groupBy(*(order.quoted(n) for n in frame.columns)).agg(F.count("*").alias(COUNT))


# ---- where the function fails for some keys ------------------------------------------------------------


def _by_key(
    checking: Checking, position: Position, folder: Path, why: str
) -> tuple[DataFrame, list[str]]:
    """The rows, which may be in a file in the folder, and the keys that have none, each with its reason.

    The rows of the tables, as the log says them, are one batch for a state of the moment, which does with
    them what the view's own state does with its first batch: so both set the same keys aside.
    """
    from pyspark.sql import SparkSession

    from headwater.views.tables.derivation import Derived
    from headwater.views.tables.frames import computing, frame_of
    from headwater.views.tables.upkeep import Upkeep

    view, context = checking.view, checking.context(position)
    with within(context):
        frame, tables = tried(view, context)
    if tables is None or (plan := plan_for(view, frame, tables)).program is None:
        raise NotVerifiable(f"the function of the view {view.name!r} ({view.place}) fails: {why}")
    # With settings of its own, as a query has them.
    spark = context.spark
    own = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    derived = Derived(own, lambda _: None, blame())
    changes = []
    for mention, table, columns in zip(tables.mentions, plan.tables, plan.columns, strict=True):
        rows = replayed(context, checking.keep, mention).toArrow()
        changes.append(derived(table, _as_changes(rows, table, columns)))
    upkeep = Upkeep(plan, folder / "state", in_memory=False, blame=blame())
    found: list[Difference] = []
    compute = computing(own, plan, on_frames(view, context, tables), folder / "state")
    try:
        upkeep.apply(0, lambda: changes, compute, found.append)
    finally:
        upkeep.close()
    aside = found[0].aside
    said = [] if aside is None else [f"{key}: {reason}" for key, reason in told(aside)]
    return frame_of(spark, found[0].rows, frame.schema, folder / "rows.parquet"), said


def _as_changes(rows: pa.Table, table: Table, columns: pa.Schema) -> pa.Table:
    """The rows of a table as `net_changes` takes them, but for what is derived."""
    import pyarrow as pa

    count = rows.num_rows
    made = {
        f"c{n}": rows.column(n).cast(columns.field(f"c{n}").type) for n in range(rows.num_columns)
    }
    none = pa.array([False] * count, pa.bool_())
    made |= {"gone": none, "emptied": none}
    made |= {f"m{n}": pa.nulls(count, made[f"c{place}"].type) for n, place in enumerate(table.keys)}
    zeros = pa.array([0] * count, pa.int64())
    return pa.table(made | {"p": zeros.cast(pa.int32()), "o": zeros, "ts": zeros})
