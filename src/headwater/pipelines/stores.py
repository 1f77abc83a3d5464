"""Views that live in a store (`headwater.views`): from a built query to the writer that Spark starts.

Called through `targets`, and by the commands that open a view. The store decides how rows are kept;
what is decided here: which columns they have, of which kind the view is, and what a mistake is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from headwater.errors import HeadwaterError
from headwater.local_path import local_path
from headwater.pipelines import registry as schema_registry
from headwater.pipelines import sink_schemas, stream_views
from headwater.pipelines.cluster import must_be_seen
from headwater.pipelines.declarations import FAIL, REAL_TIME, View, in_store
from headwater.pipelines.errors import NotRealTime, PipelineError
from headwater.pipelines.rows import Result, as_records, check_key
from headwater.pipelines.tables import DELETED, MARKS
from headwater.pipelines.whole_transactions import TRANSACTIONS
from headwater.views.targets import registry
from headwater.views.targets.contract import VALIDITY, Kind, Shape, Target, Unavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from headwater.views.applier import Applying
    from headwater.views.tables.follower import Sink
    from headwater.views.tables.plan import Plan
    from headwater.views.tables.shared.batch import SharedSink


def writer_of(result: Result) -> Any:
    """Spark's DataStreamWriter for a view in a store."""
    if result.context.speed == REAL_TIME:
        raise NotRealTime(
            f"the view {result.view.name!r} ({result.view.place}) goes to {result.view.where}, which "
            "takes micro-batches",
            hint="leave out speed=, or let it go to a topic",
        )
    if TRANSACTIONS in result.view.options:
        raise PipelineError(
            f"the view {result.view.name!r} ({result.view.place}) asks for whole transactions, and is "
            "not over tables",
            hint="let it name its inputs with hw.table alone, and leave out marks such as _deleted",
        )
    applying = applying_of(result)
    by_driver = stream_views.writer_of(result, lambda: stream_views.StoreOutput(applying))
    return by_driver or result.frame.writeStream.foreachBatch(applying)


def applying_of(result: Result) -> Applying:
    """What brings each batch of a view into its store."""
    from headwater.views.applier import Applying
    from headwater.views.dead_letters import Letters

    view, context = result.view, result.context
    if context.checkpoint is None:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) goes to {view.where}, and nobody says where its "
            "checkpoint is",
            hint="run it with headwater run",
        )
    check_key(view, result.frame, needed=result.updates or DELETED in result.frame.columns)
    target = store_of(view, shape_of(view, result.frame), context.checkpoint)
    if (folder := target.staging_folder) is not None:
        must_be_seen(
            context.spark,
            folder,
            f"tasks of the view {view.name!r} ({view.place}) leave their rows in",
            "name a folder that all machines see: options={'staging': FOLDER}",
        )
    if schema_registry.evolves(context):
        context.widen = partial(_widen, view, target)
    else:
        _prepare(view, target)
    letters = None
    if view.on_refused != FAIL:
        letters = Letters(view.name, view.dead_letters, context.kafka_options(), context.checkpoint)
        context.dead_letters = True  # so that they are counted
    return Applying(target, context.checkpoint, letters, states=result.updates)


def store_of(view: View, shape: Shape, checkpoint: str | None = None) -> Target:
    """The target of a view; nothing is opened yet. PipelineError if there cannot be one."""
    if view.effect is not None:
        return _function(view, shape, checkpoint)
    try:
        return registry.target_for(view.to, shape)
    except HeadwaterError as error:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}): {error}", hint=error.hint
        ) from error


def _function(view: View, shape: Shape, checkpoint: str | None) -> Target:
    from headwater.views.targets.function import FunctionTarget

    named = shape.options.get("staging") or checkpoint
    folder = None if named is None else local_path(named)
    assert view.effect is not None
    if folder is None:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) is a function, which keeps its position in a local "
            "folder",
            hint="name one: options={'staging': FOLDER}",
        )
    return FunctionTarget(view.effect, folder, view.to, shape)


def shape_of(view: View, frame: DataFrame) -> Shape:
    """What the store needs to know of the view; marks such as `_offset` are no part of its rows."""
    kind = kind_of(view)
    shape = Shape(view.name, _arrow(view, frame.schema), view.key, kind, view.version, view.options)
    taken = [name for name in VALIDITY if kind is Kind.HISTORY and name in shape.schema.names]
    if taken:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) is a history and has a column {taken[0]}, which "
            "the history adds itself",
            hint="give the column another name",
        )
    from headwater.views.order import lacks_time

    if (missing := lacks_time(frame.columns, shape)) is not None:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) is a history, and has no column {missing} to say "
            "since when a row is so",
            hint=f"keep {missing} in the result, or name another: options={{'valid_from': COLUMN}}",
        )
    return shape


def sink_options(result: Result) -> dict[str, str]:
    """Of headwater's sink, for a view that goes to a topic: the view's own are among them."""
    view, context, topic = result.view, result.context, result.view.topic
    assert topic is not None
    ours = (TRANSACTIONS, sink_schemas.FORMAT)
    own = {name: text for name, text in view.options.items() if name not in ours}
    by_schema = sink_schemas.sink_options(view, context, topic, result.frame.schema)
    return {**context.kafka_options(), **own, **by_schema, "topic": topic}


def kind_of(view: View) -> Kind:
    return Kind(view.kind) if view.kind else Kind.UPSERT if view.key else Kind.APPEND


def _arrow(view: View, schema: StructType) -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType as Struct

    shown = Struct([field for field in schema.fields if field.name not in MARKS])
    if not shown.fields:
        raise PipelineError(f"the view {view.name!r} ({view.place}) has no column of its own")
    try:
        return to_arrow_schema(shown, timezone="UTC")
    except Exception as error:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) has a column that {view.where} cannot keep: {error}",
            hint="cast it, or write it as text with to_json",
        ) from error


def _prepare(view: View, target: Target) -> None:
    """Make the place now, so that a misfit shows before any query runs; a store that is away may."""
    with contextlib.suppress(Unavailable):  # the first batch waits for it
        _told(view, target.create)


def _widen(view: View, target: Target) -> None:
    """Give the place the columns that the view has got. Raises Unavailable."""
    _told(view, target.widen)
    _told(view, target.create)


def _told(view: View, call: Callable[[], None]) -> None:
    try:
        call()
    except Unavailable:
        raise
    except HeadwaterError as error:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}): {error}", hint=error.hint
        ) from error


# ---- differences of views over tables ------------------------------------------------------------------


def table_sink(result: Result, plan: Plan) -> Sink:
    from headwater.views.tables.follower import FrameSink, StoreSink

    if result.view.topic is not None:
        return FrameSink(plan.result, _into_topic(result))
    return StoreSink(_applying(result))


def refuse_transactions(view: View) -> None:
    if TRANSACTIONS in view.options:
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) asks for whole transactions, which are held back on "
            "the driver, and its state is on shared storage",
            hint="leave out the option transactions, or run it with --master 'local[*]' and a local folder "
            "of checkpoints",
        )


def shared_table_sink(result: Result) -> SharedSink:
    from headwater.views.tables.follower import StoreSink
    from headwater.views.tables.shared.batch import SharedFrameSink, SharedStoreSink

    if result.view.topic is not None:
        return SharedFrameSink(_into_topic(result))
    applying = _applying(result)
    return SharedStoreSink(applying, StoreSink(applying).has)


def _into_topic(result: Result) -> Callable[[DataFrame], None]:
    view = result.view
    options = sink_options(result)

    def write(rows: DataFrame) -> None:
        records = as_records(rows, view, updates=True)
        records.write.format("headwater").mode("append").options(**options).save()

    return write


def _applying(result: Result) -> Applying:
    view = result.view
    scheme = view.to.partition(":")[0]
    if only_grows(view):
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) is over tables, whose rows change, and {scheme}: "
            "can only be added to",
            hint="let it go to a topic or to a database, as in to='sqlite:views.db'",
        )
    return applying_of(result)


def only_grows(view: View) -> bool:
    """Whether the view goes to where rows can only be added."""
    return not in_store(view) and registry.kinds_of(view.to) == {Kind.APPEND}
