"""Where a view's result can live: SCHEME:REST to a started writer. The seam for further targets.

Called while a view is built. A target is a function that gets the built query and returns Spark's
DataStreamWriter, with format and options set; the runner adds name, mode, trigger and checkpoint.
`register` adds one under a new scheme.

    topic:NAME      a topic of the log, exactly once
    parquet:PATH    files that Spark writes, exactly once
    memory:         a table in the driver with the view's name, for trying
    console:        the terminal, for trying

Every other scheme is a store of `headwater.views` (sqlite:, postgresql://, …), which `stores` writes to.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.pipelines import stores
from headwater.pipelines.declared import REAL_TIME, View, in_store
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.result import Result as Result
from headwater.pipelines.rows import as_records
from headwater.views import batch_name, registry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


Target = Callable[[Result], Any]
_TARGETS: dict[str, Target] = {}


def register(scheme: str, target: Target) -> None:
    """Make `to="scheme:…"` mean `target`."""
    _TARGETS[scheme] = target


def target_of(view: View) -> tuple[Target, str]:
    """The target that a view names, and the rest of its name."""
    scheme, colon, rest = view.to.partition(":")
    target = _TARGETS.get(scheme)
    if target is None and in_store(view):
        return stores.writer_of, rest
    if target is None or not colon:
        known = ", ".join(f"{name}:" for name in (*_TARGETS, *registry.schemes()))
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) goes to {view.to!r}, which names no target",
            hint=f"there are {known}, as in to='topic:{view.name}'",
        )
    return target, rest


def topic_of(view: View) -> str | None:
    """The topic that a view writes to, if it does."""
    scheme, _, rest = view.to.partition(":")
    return rest if scheme == "topic" else None


def refuse_leftovers(view: View) -> None:
    """A query that starts anew must not meet files of its earlier life: Spark would skip its batches."""
    scheme, _, rest = view.to.partition(":")
    if scheme == "parquet" and (Path(rest) / "_spark_metadata").exists():
        raise PipelineError(
            f"the view {view.name!r} ({view.place}) starts anew, and {rest} has files of a query "
            "before it",
            hint=f"move them away: mv {rest} {rest}.old",
        )


def _topic(result: Result) -> Any:
    _require_rest(result, "a topic", "topic:orders")
    records = as_records(result.frame, result.view, updates=result.updates)
    options = {**result.context.kafka_options(), "topic": result.rest}
    if result.context.speed == REAL_TIME:
        # Real-time mode takes no Python sink: there, Spark's connector writes, at least once.
        return records.writeStream.format("kafka").options(**options)
    if not result.updates:
        return records.writeStream.format("headwater").options(**options)

    checkpoint = result.context.checkpoint

    # Spark gives a Python sink no rows that change; a batch of them it does. The sink knows which
    # query and batch it is at, so this is exactly once as well.
    def write(batch: DataFrame, number: int) -> None:
        named = batch_name.options_for(batch.sparkSession, checkpoint, number)
        writer = batch.write.format("headwater").mode("append")
        writer.options(**options, **named).save()

    return records.writeStream.foreachBatch(write)


def _parquet(result: Result) -> Any:
    _require_rest(result, "a folder", "parquet:data/orders")
    return result.frame.writeStream.format("parquet").option("path", result.rest)


def _memory(result: Result) -> Any:
    return result.frame.writeStream.format("memory")


def _console(result: Result) -> Any:
    return result.frame.writeStream.format("console").option("truncate", "false")


def _require_rest(result: Result, what: str, example: str) -> None:
    if not result.rest:
        raise PipelineError(
            f"the view {result.view.name!r} ({result.view.place}) does not say {what}",
            hint=f"write to={example!r}",
        )


register("topic", _topic)
register("parquet", _parquet)
register("memory", _memory)
register("console", _console)
