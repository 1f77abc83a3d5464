"""The words of a pipeline file: `stream` and `table` name what comes in, `view` where a result lives.

    import headwater as hw

    @hw.view("large_orders", key="order_id", to="topic:large-orders")
    def large_orders():
        orders = hw.stream("orders", schema="order_id STRING, total DOUBLE")
        return orders.where("total > 1000")

Everything in between is PySpark. Called by users; the decorator only notes the function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from headwater.pipelines.context import current
from headwater.pipelines.declarations import (
    ADD,
    DEAD_LETTER,
    DECLARED,
    KINDS,
    MICRO_BATCH,
    MODES,
    NEW_COLUMNS,
    ON_REFUSED,
    SPEEDS,
    Mode,
    View,
)
from headwater.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.views.targets.function import Batch

Function = TypeVar("Function", bound="Callable[[], DataFrame]")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


def stream(
    topic: str,
    *,
    schema: str | None = None,
    starting: str = "earliest",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The records of a topic (or of several: `"a,b"`) as a streaming DataFrame of events.

    With `schema` (`"id STRING, total DOUBLE"`): values decoded into these columns (JSON, or what a
    registry knows the schema of), then `_key`, `_topic`, `_partition`, `_offset` and `_timestamp` of the
    record; a value that does not fit goes to the view's dead-letter topic, `dlq.headwater-NAME`. Without
    `schema`: the columns that the registry has for the topic; and where there is none, those of Spark's
    Kafka source (key, value, topic, partition, offset, timestamp, timestampType).

    `starting` is where a query begins that has no checkpoint yet: `earliest`, `latest`, or Spark's
    JSON of offsets. `options` go to the source as they are.
    """
    from headwater.pipelines import registry
    from headwater.pipelines.sources import events

    context, given = current(), dict(options or {})
    context.streams.extend(name.strip() for name in topic.split(","))
    if schema is not None:
        given = {**registry.decoded(context, schema, given), **given}
    elif (found := registry.of_stream(context, topic, given)) is not None:
        schema, given = found.schema, {**found.options, **given}
    return events(context, topic, schema=schema, starting=starting, options=given)


def table(
    topic: str,
    *,
    schema: str | None = None,
    key: str | Sequence[str] | None = None,
    starting: str = "earliest",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """A change stream understood as a table: its rows as they are, with the columns of `schema`.

    Without `schema` and `key`, the registry has them: of the topic's subjects TOPIC-value and TOPIC-key.

    Values are Debezium's envelope or plain rows, where a record without a value deletes its key. A
    view over tables is kept current row by row, deletes included; see docs/views-over-tables.md.

    A function that asks for one of the marks gets the changes one by one instead, as a stream: `_op`
    (`c`, `u`, `d`, `r`), `_deleted`, `_before` (the row as it was, where the record says so), and
    `_key`, `_topic`, `_partition`, `_offset`, `_timestamp` of the record. Of a deleted row the
    columns are as they were before, or its key alone.
    """
    from headwater.pipelines.tables import changes

    context = current()
    context.tables.append(topic)
    keys = (key,) if isinstance(key, str) else tuple(key or ())
    return changes(
        context, topic, schema=schema, key=keys, starting=starting, options=options or {}
    )


def view(
    name: str,
    *,
    key: str | Sequence[str] = (),
    to: str | Callable[[Batch], object] | None = None,
    kind: str | None = None,
    on_refused: str = DEAD_LETTER,
    new_columns: str = ADD,
    mode: Mode | None = None,
    every: str | None = None,
    speed: str = MICRO_BATCH,
    options: Mapping[str, str] | None = None,
) -> Callable[[Function], Function]:
    """Say where the result of a function lives; the function takes nothing and returns a DataFrame.

    `name` also names the checkpoint and the consumer group (`headwater-NAME`). `key`: the columns
    that make a row one row. `to`: SCHEME:REST, or a function that gets each batch; without it, the topic
    of the view's name. `kind` is how a store keeps the rows: `upsert` (one row per key), `append`, or
    `history` (every version of a row with its times). `on_refused`: a row that the store does not take, or a
    key for which the function fails, is a dead letter or stops the query (`fail`). `new_columns`: those from
    upstream appear (`add`) or not (`ignore`). `mode` is Spark's, `every` between batches, `speed` real-time.
    """
    complaint = _complaint(name, mode, speed) or _about_rows(name, kind, on_refused, new_columns)

    def declare(function: Function) -> Function:
        if complaint is not None:
            raise PipelineError(f"{_place(function)}: {complaint}")
        declared = View(
            name,
            function,
            to=f"topic:{name}" if to is None else _named(to),
            key=(key,) if isinstance(key, str) else tuple(key),
            mode=mode,
            every=every,
            speed=speed,
            options={str(name): str(value) for name, value in (options or {}).items()},
            place=_place(function),
            kind=kind or "",
            on_refused=on_refused,
            new_columns=new_columns,
            effect=to if callable(to) else None,
        )
        DECLARED.add(declared)
        return function

    return declare


def _complaint(name: str, mode: str | None, speed: str) -> str | None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return (
            f"{name!r} cannot be the name of a view; use letters, digits, dot, dash and "
            "underscore, as in @hw.view('orders_by_day')"
        )
    if mode is not None and mode not in MODES:
        return f"the view {name!r} asks for mode {mode!r}; there are {', '.join(MODES)}"
    if speed not in SPEEDS:
        return f"the view {name!r} asks for speed {speed!r}; there are {', '.join(SPEEDS)}"
    return None


def _about_rows(name: str, kind: str | None, on_refused: str, new_columns: str) -> str | None:
    if kind is not None and kind not in KINDS:
        return f"the view {name!r} asks for kind {kind!r}; there are {', '.join(KINDS)}"
    if on_refused not in ON_REFUSED:
        said = ", ".join(ON_REFUSED)
        return f"the view {name!r} has on_refused={on_refused!r}; there are {said}"
    if new_columns not in NEW_COLUMNS:
        said = ", ".join(NEW_COLUMNS)
        return f"the view {name!r} has new_columns={new_columns!r}; there are {said}"
    return None


def _named(to: str | Callable[..., Any]) -> str:
    return to if isinstance(to, str) else f"function:{getattr(to, '__qualname__', repr(to))}"


def _place(function: Callable[[], Any]) -> str:
    code = inspect.unwrap(function).__code__
    path = Path(code.co_filename)
    here = Path.cwd()
    shown = path.relative_to(here) if path.is_relative_to(here) else path
    return f"{shown}:{code.co_firstlineno}"
