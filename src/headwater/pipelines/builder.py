"""A declared view to a query that can be started: call its function, look at what came back.

Called by the runner for every view before any is started, so that a mistake shows at once, and
again whenever a query is started anew: a DataFrame remembers settings that may have changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.errors import HeadwaterError
from headwater.local_path import local_path
from headwater.pipelines import evolution, state_evolution, table_views
from headwater.pipelines.checkpoints import Shape
from headwater.pipelines.cluster import SHARED_CHECKPOINTS, must_be_seen
from headwater.pipelines.context import Context, within
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError, brief
from headwater.pipelines.loader import line_in
from headwater.pipelines.plan import Node, Plan, plan_of
from headwater.pipelines.rows import Result
from headwater.pipelines.table_views import Tables, tried
from headwater.pipelines.tables import DELETED, MARKS
from headwater.pipelines.targets import takes_updates, writer_of
from headwater.views.batch_name import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Built:
    """A view's query, ready but not started."""

    view: View
    writer: Any
    """Spark's DataStreamWriter, with format and options set."""
    mode: str
    shape: Shape
    stateful: bool
    reads: tuple[str, ...]
    """The topics named with `stream` and `table`."""
    evolution: evolution.Evolution
    """What becomes of it where a topic's schema gets or loses columns."""
    dead_letters: str | None
    """The topic for what does not fit a schema, where the view has one."""
    can_shrink: bool = False
    """Whether a batch that nobody has seen anything of may be planned anew, with fewer records."""


def build(view: View, context: Context) -> Built:
    """Call the view's function and hand the result to its target."""
    write = writer_of(view)
    evolution.leave(view, context)
    frame, tables = _told(view, lambda: tried(view, context))
    if tables is not None:
        return _over_tables(view, context, frame, tables)
    if frame is None:
        context.reading.clear()
        with within(context):
            frame = _told(view, view.function)
    _check_stream(view, frame)
    evolution.check(view, context, frame)
    plan = plan_of(frame)
    if len(plan.sources) > 1 and context.alone:
        return build(view, replace(context, alone=False))
    _check_tables(view, context, plan, frame.columns)
    mode = view.mode or ("update" if plan.aggregates and takes_updates(view) else "append")
    result = Result(frame, view, context, updates=mode != "append")
    _check_state(view, context, plan)
    return Built(
        view=view,
        writer=write(result),
        mode=mode,
        shape=Shape(plan.sources, plan.state, mode, view.where),
        stateful=bool(plan.state),
        reads=tuple(dict.fromkeys([*context.streams, *context.tables])),
        dead_letters=view.dead_letters if context.dead_letters else None,
        can_shrink=view.topic is not None,
        evolution=evolution.Evolution(view, context),
    )


def _over_tables(view: View, context: Context, frame: DataFrame, tables: Tables) -> Built:
    evolution.check(view, context, frame)
    writer, query = table_views.writer_of(view, context, frame, tables)
    topics = ",".join(dict.fromkeys(context.tables))
    return Built(
        view=view,
        writer=writer,
        mode="append",
        shape=Shape((f"headwater {topics}",), (f"Tables {query}",), "append", view.where),
        stateful=False,
        reads=tuple(dict.fromkeys(context.tables)),
        dead_letters=view.dead_letters if context.dead_letters else None,
        can_shrink=view.topic is not None,
        evolution=evolution.Evolution(
            view, context, partial(state_evolution.widen, view, context, frame, tables)
        ),
    )


def _told(view: View, call: Callable[[], Any]) -> Any:
    """What comes of a view's function; a mistake in it with its place."""
    try:
        return call()
    except HeadwaterError as error:
        raise type(error)(
            f"the view {view.name!r} ({view.place}): {error.args[0]}", hint=error.hint
        ) from error
    except Exception as error:
        file = Path(view.function.__code__.co_filename)
        place = f"{view.place.rpartition(':')[0]}, line {line_in(error, file)}"
        raise PipelineError(
            f"the view {view.name!r} cannot be built, {place}: {brief(error)}",
            hint="correct the file and run it again",
        ) from error


def _check_stream(view: View, frame: Any) -> None:
    if not getattr(frame, "isStreaming", False):
        what = "a DataFrame that is no stream" if hasattr(frame, "isStreaming") else _named(frame)
        raise PipelineError(
            f"the function of the view {view.name!r} ({view.place}) returned {what}",
            hint="return a DataFrame that begins with hw.stream(TOPIC) or hw.table(TOPIC, …)",
        )


def _check_state(view: View, context: Context, plan: Plan) -> None:
    """State is written by executors, to where the checkpoint is."""
    folder = None if context.checkpoint is None else local_path(context.checkpoint)
    if plan.state and folder is not None:
        must_be_seen(
            context.spark,
            folder,
            f"the view {view.name!r} ({view.place}) keeps state in",
            SHARED_CHECKPOINTS,
        )


def _named(value: object) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _check_tables(view: View, context: Context, plan: Plan, columns: list[str]) -> None:
    """A table's changes may be projected, not more: what cannot be kept current must not look so."""
    if not context.tables:
        return
    named = f"the view {view.name!r} ({view.place})"
    wrong = _wrong_with_changes(context, plan, columns)
    if wrong is not None and is_connect(context.spark):
        raise PipelineError(
            f"{named} {wrong[0]}; their rows are kept current by Spark's analysed plan of the function, "
            "which a Spark Connect server does not hand out",
            hint="run it with --master (master in [spark]) instead of --remote: on a cluster, executors keep "
            "the state of its tables",
        )
    if wrong is not None:
        raise PipelineError(f"{named} {wrong[0]}", hint=wrong[1])


def _wrong_with_changes(context: Context, plan: Plan, columns: list[str]) -> tuple[str, str] | None:
    """Why a view cannot be made of the changes of tables, and what to do where their rows can be had."""
    if "Join" in plan.kinds() and len(context.tables) > 1:
        return (
            f"joins changes of the tables {' and '.join(context.tables)}, not their rows",
            f"leave out {DELETED} and other marks of a change: then the tables are joined",
        )
    if plan.aggregates:
        return (
            f"aggregates the table {context.tables[0]}, and would count its changes instead of its rows",
            f"leave out {DELETED} and other marks of a change; to count changes, read them as events with "
            "hw.stream",
        )
    if any(node.kind == "Filter" and _filters_rows(node) for node in plan.nodes):
        return (
            f"filters the table {context.tables[0]}, and would keep rows that no longer match",
            f"leave out {DELETED} and other marks of a change: then its rows are filtered",
        )
    if DELETED not in columns:
        return (
            f"leaves out the column {DELETED} of the table {context.tables[0]}, and would lose deletes",
            f"select it too, as in .select(…, {DELETED!r})",
        )
    return None


def _filters_rows(node: Node) -> bool:
    """Whether a filter looks at a row's own columns, and not only at marks such as `_op`."""
    names = re.findall(r"([A-Za-z_][\w.]*)#\d+", node.text)
    return any(name not in MARKS for name in names)
