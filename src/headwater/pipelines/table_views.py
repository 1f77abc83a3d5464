"""Views over tables: a function that names only tables, and sees them as tables.

Called while a view is built. The function is called with empty tables first, to see what it does with
them; then with tables that each batch fills with the rows that decide over what has changed, or anew in
every batch where that cannot be (`headwater.views.tables`). A function
that asks for marks of a change (`_op`, `_deleted`, …) wants the changes one by one: these it gets from
`tables`, as a stream.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from headwater.errors import HeadwaterError
from headwater.pipelines import cluster, failed_keys, registry, stores
from headwater.pipelines.context import Context, within
from headwater.pipelines.declarations import REAL_TIME, View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.rows import Result
from headwater.pipelines.sources import COMMITTED, events
from headwater.pipelines.tables import MARKS, Mention, plainly
from headwater.pipelines.whole_transactions import TRANSACTIONS, whole_transactions
from headwater.views.batch_name import is_connect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from headwater.pipelines.batch_source import TailSource
    from headwater.spark.source.tail import RangeReader, Tail
    from headwater.views.tables.decoder import Table
    from headwater.views.tables.plan import Plan
    from headwater.views.tables.program import Program
    from headwater.views.tables.replay import Kept

RECORDS_AT_ONCE = 200_000
"""Of a batch, where the view does not say: its changes, and what they touch, are in memory."""

_CLIENT_ID = "kafka.client.id"
_MAKING = threading.Lock()


class Tables:
    """The tables that a function names, and what it is given for them."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.mentions: list[Mention] = []
        self.frames: Mapping[int, DataFrame] | None = None

    def __call__(self, mention: Mention) -> DataFrame:
        from headwater.views.tables.planner import marked

        if mention not in self.mentions:
            self.mentions.append(mention)
        number = self.mentions.index(mention)
        if self.frames is not None:
            return marked(self.frames[number], number)
        return marked(self._spark.createDataFrame([], mention.table.row), number)

    def known(self) -> list[Table]:
        return [each.table for each in self.mentions]


def tried(view: View, context: Context) -> tuple[Any, Tables | None]:
    """Call a view's function with empty tables.

    Returns its result and the tables, where it can be kept as a view over tables; its result and None
    where it names no table; twice None where it must be called with changes instead.
    """
    if view.kind == "history" or context.speed == REAL_TIME or is_connect(context.spark):
        return None, None
    tables, trial = Tables(context.spark), replace(context, streams=[], tables=[])
    try:
        with within(trial), plainly(tables), _unheard():
            frame = view.function()
    except Exception as error:
        if trial.tables and any(mark in str(error) for mark in MARKS):
            return None, None
        raise
    if not trial.tables or not hasattr(frame, "isStreaming"):
        context.streams.extend(trial.streams)
        context.dead_letters |= trial.dead_letters
        return frame, None
    whole = TRANSACTIONS in view.options  # these need the records of a batch together
    if trial.streams or frame.isStreaming or (not whole and _is_added_to(view, frame, tables)):
        return None, None
    context.tables.extend(trial.tables)
    return frame, tables


@contextmanager
def _unheard() -> Iterator[None]:
    """Keep PySpark from printing a mistake that is none: a mark that a plain table does not have."""
    # By PySpark's own hand: a plain logger of this name would not know the words it logs with.
    from pyspark.logger import PySparkLogger

    logger = PySparkLogger.getLogger("DataFrameQueryContextLogger")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _is_added_to(view: View, frame: DataFrame, tables: Tables) -> bool:
    """Whether the result is a table as a whole, and goes to where rows are only added: its changes are then
    handed on one by one. Elsewhere a row must go when its table is emptied, which needs state."""
    if not stores.only_grows(view) or len(tables.mentions) != 1:
        return False
    if view.key != tables.mentions[0].table.key:
        return False
    plan = frame._jdf.queryExecution().analyzed()
    return str(plan.getClass().getSimpleName()) == "SubqueryAlias" and (
        str(plan.child().getClass().getSimpleName()) in ("LocalRelation", "LogicalRDD")
    )


def result_of(view: View, context: Context, keep: Kept) -> DataFrame:
    """What a view's function gives at the pinned position of a context, from the log as a whole."""
    assert context.pinned is not None
    with within(context), ExitStack() as how:
        empty, tables = tried(view, context)
        if tables is not None:
            if not context.pinned.offsets:
                return cast("DataFrame", empty)  # at the beginning: without asking the log
            how.enter_context(plainly(partial(replayed, context, keep)))
        found: DataFrame = view.function()
    return found


def replayed(context: Context, keep: Kept, mention: Mention) -> DataFrame:
    """A table at the pinned position of a context."""
    from headwater.views.tables import replay

    table, start, options = mention.table, mention.starting, mention.options
    records = events(context, table.topic, schema=None, starting=start, options=options)
    return replay.rows(records, table, keep)


# ---- the query ----------------------------------------------------------------------------------------


def writer_of(view: View, context: Context, frame: DataFrame, tables: Tables) -> tuple[Any, str]:
    """Spark's DataStreamWriter for a view over tables; and its query, as text."""
    from headwater.pipelines.driver_query import DriverWriter, Work
    from headwater.views.tables.follower import Following
    from headwater.views.tables.moments import takes_rows
    from headwater.views.tables.planner import query_text
    from headwater.views.tables.shared.batch import SharedFollowing

    function = on_frames(view, context, tables)
    plan = plan_for(
        view, frame, tables, lambda: takes_rows(context.spark, tables.known(), function)
    )
    result = Result(frame, view, context, updates=True)
    refuse, aside = failed_keys.refusals(view, context, _with_client(context, view))
    if cluster.keeps_shared_state(view, context):
        stores.refuse_transactions(view)
        place, into = cluster.state_address(view, context), stores.shared_table_sink(result)
        shared = SharedFollowing(plan, place, frame.schema, function, into, refuse)
        return _records(view, context, tables).writeStream.foreachBatch(shared), query_text(frame)
    checkpoint, sink = cluster.state_folder(view, context), stores.table_sink(result, plan)
    if view.every is None and TRANSACTIONS not in view.options:
        options = _source_options(view, context, tables)
        work = Work(
            view.name,
            context.spark,
            checkpoint,
            lambda spark: Following(plan, checkpoint, function, sink, refuse, spark, aside),
            lambda: _reader(options, view.name),
            lambda once: _source(options, view.name, once),
        )
        return DriverWriter(work), query_text(frame)
    following: Callable[[DataFrame, int], None] = Following(
        plan, checkpoint, function, sink, refuse, aside=aside
    )
    if TRANSACTIONS in view.options:
        topics = [each.table.topic for each in tables.mentions]
        following = whole_transactions(view, context, following, checkpoint, topics)
    return _records(view, context, tables).writeStream.foreachBatch(following), query_text(frame)


def on_frames(
    view: View, context: Context, tables: Tables
) -> Callable[[SparkSession, Mapping[int, DataFrame]], DataFrame]:
    """The view's function on given rows of its tables."""

    def function(spark: SparkSession, frames: Mapping[int, DataFrame]) -> DataFrame:
        again = Tables(spark)
        again.mentions, again.frames = list(tables.mentions), frames
        with within(replace(context, spark=spark, streams=[], tables=[])), plainly(again):
            found: DataFrame = view.function()
        return found

    return function


_TAILS: WeakValueDictionary[frozenset[tuple[str, str]], Tail] = WeakValueDictionary()
"""One for all views that read the same topics in the same way."""


def _tail(options: Mapping[str, str]) -> Tail:
    from headwater.spark.source.tail import Tail

    key = frozenset(options.items())
    with _MAKING:
        found = _TAILS.get(key)
        if found is None:
            found = _TAILS[key] = Tail(options, _record_schema())
    return found


def _reader(options: Mapping[str, str], view: str) -> RangeReader:
    from headwater.spark.source.tail import RangeReader

    return RangeReader({**options, _CLIENT_ID: _client_id(options, view)}, _record_schema())


def _source(options: Mapping[str, str], view: str, once: bool) -> TailSource:
    from headwater.pipelines.batch_source import TailSource

    return TailSource(lambda: _reader(options, view), lambda: _tail(options), once)


def _record_schema() -> pa.Schema:
    import pyarrow as pa

    numbers = (pa.int32(), pa.int64(), pa.timestamp("us", "UTC"))
    kinds = (pa.binary(), pa.binary(), pa.string(), *numbers)
    from headwater.views.tables.decoder import COLUMNS

    return pa.schema(list(zip(COLUMNS, kinds, strict=True)))


def _with_client(context: Context, view: View) -> Context:
    """With a connection of its own: threads that share one would take each other's answers."""
    own = _client_id(context.kafka_options(), view.name)
    return replace(context, client={**context.client, "client.id": own})


def _client_id(options: Mapping[str, str], view: str) -> str:
    return f"{options.get(_CLIENT_ID, 'headwater')}-{view}"


def plan_for(
    view: View, frame: DataFrame, tables: Tables, reads: Callable[[], bool] = lambda: False
) -> Plan:
    """`reads`: whether the function reads its tables while it runs."""
    from headwater.views.tables.errors import NotByRow
    from headwater.views.tables.planner import plan
    from headwater.views.tables.ties import refuse_ties

    named = f"the view {view.name!r} ({view.place})"
    whole = view.every is not None
    try:
        refuse_ties(frame, [each.key for each in tables.known()])
        found = plan(view.name, view.key, frame, tables.known(), as_a_whole=whole)
        if found.program is None or not (_unseen(found.program, tables) or reads()):
            return found
        if whole:
            return replace(found, program=None)
        raise NotByRow(
            "its function reads its tables while it runs: the rows of one moment, which would never change",
            hint="leave out collect, count, toPandas and checkpoints, and give a pivot its values",
        )
    except NotByRow as error:
        raise PipelineError(
            f"{named} cannot be kept current row by row: {error.args[0]}",
            hint="; or ".join(
                filter(None, [error.hint, "let it be recomputed as a whole: every='1 minute'"])
            ),
        ) from error
    except HeadwaterError as error:
        raise PipelineError(f"{named}: {error.args[0]}", hint=error.hint) from error


def _unseen(program: Program, tables: Tables) -> bool:
    """Whether the function asks for a table that its result does not show."""
    return not all(program.looks_at(n) for n in range(len(tables.mentions)))


def _records(view: View, context: Context, tables: Tables) -> DataFrame:
    """One stream of the records of all tables."""
    reader = context.spark.readStream.format("headwater")
    return reader.options(**_source_options(view, context, tables)).load()


def _source_options(view: View, context: Context, tables: Tables) -> dict[str, str]:
    from headwater.views.tables.decoder import COLUMNS

    first = tables.mentions[0]
    for each in tables.mentions:
        if each.starting != first.starting or each.options != first.options:
            raise PipelineError(
                f"the view {view.name!r} ({view.place}) begins to read the tables {first.table.topic} and "
                f"{each.table.topic} at different places, or with different options",
                hint="give them the same starting= and options=",
            )
    named = [each.table.topic for each in tables.mentions]
    if (marks := view.options.get(TRANSACTIONS)) is not None:
        named.append(marks)
    return {
        **context.kafka_options(),
        "subscribe": ",".join(dict.fromkeys(named)),
        "startingOffsets": first.starting,
        "columns": ",".join(COLUMNS),
        **COMMITTED,
        **first.options,
        **registry.pins(context),
        **context.admission(first.options, RECORDS_AT_ONCE),
    }
