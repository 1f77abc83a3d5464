"""Rows of a view as they were at a position of the log, or at a time: nobody keeps them, the log says them.

Called by `headwater rows --as-of`, by way of the application that runs where there is one
(`control_server`). What the view must have held is computed as `headwater verify` computes it. Topics that
are compacted, or whose first records are gone, do not say everything about their past: that is remarked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.client import topics
from headwater.client.cluster import EARLIEST, Cluster
from headwater.client.errors import BadRequest
from headwater.client.log import Log
from headwater.client.position import Position
from headwater.pipelines import application
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import NotVerifiable
from headwater.pipelines.expected_rows import Checking, checking_of, opened, with_expected
from headwater.pipelines.handles import handle
from headwater.pipelines.view_job import view_job
from headwater.pipelines.view_rows.values import parts_of, plain
from headwater.views import order as columns
from headwater.views.folding.state import NoSuchState, parse_as_of
from headwater.views.targets.contract import Shape

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ROWS_MAX = 10_000


@dataclass(frozen=True)
class Asked:
    """`as_of`: a position or a time; `key`: of one row, its columns between colons."""

    as_of: str
    key: str = ""
    limit: int = 50


@dataclass(frozen=True)
class PastRows:
    """`is_all`: whether the view had no other rows than these."""

    view: str
    position: Position
    rows: list[dict[str, object]]
    is_all: bool
    remarks: list[str]


def past_rows_view(
    order: application.Order,
    name: str,
    say: Callable[[str], None],
    asked: Asked,
    targets: Mapping[str, str] | None = None,
) -> PastRows:
    """By a Spark of its own."""
    with view_job(order, name, targets) as job:
        return past_rows(order, job.spark, job.view, say, asked)


def past_rows(
    order: application.Order,
    spark: SparkSession,
    view: View,
    say: Callable[[str], None],
    asked: Asked,
) -> PastRows:
    """As `past_rows_view`, with a session that is there and a view that is loaded."""
    reached = handle(view).position()
    if reached is None:
        raise NotVerifiable(
            f"the view {view.name!r} has not begun yet", hint="headwater run brings it up to date"
        )
    client = {**order.client, "bootstrap.servers": order.bootstrap}
    cluster = Cluster(client)
    try:
        position = resolved(asked.as_of, reached, cluster, view.name)
        remarks = _remarks(position, cluster, order)
    finally:
        cluster.close()
    say(f"computing the rows at {position}")
    return rows_at(checking_of(order, spark, view, say), position, asked, remarks)


def rows_at(
    checking: Checking, position: Position, asked: Asked, remarks: list[str] | None = None
) -> PastRows:
    """What the view must have held there, in the order of its keys."""
    try:
        shape, _ = opened(checking)
        limit = min(asked.limit, ROWS_MAX)

        def first(rows: DataFrame) -> list[dict[str, object]]:
            chosen = _chosen(rows, shape, asked.key).limit(limit + 1)
            found: list[dict[str, object]] = chosen.toArrow().to_pylist()
            return found

        taken, aside = with_expected(checking, position, shape, first)
    finally:
        checking.keep.forget()
    rows = [{name: plain(value) for name, value in row.items()} for row in taken]
    said = list(remarks or ())
    if aside:
        said.append(f"{len(aside):,} keys have no row: the view's function fails for them.")
    return PastRows(shape.view, position, rows[:limit], len(rows) <= limit, said)


def _chosen(frame: DataFrame, shape: Shape, key: str) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    by = [F.col(columns.quoted(name)) for name in shape.key]
    if key:
        if not by:
            raise BadRequest(
                f"the view {shape.view!r} has no key", hint="ask for its rows without one"
            )
        parts = parts_of(key, len(by))
        if parts is None:
            raise BadRequest(
                f"{key[:100]!r} is no key of {shape.view}", hint=f"it is {':'.join(shape.key)}"
            )
        for name, part in zip(shape.key, parts, strict=True):
            frame = frame.where(F.col(columns.quoted(name)) == _of_text(part, frame, name))
    return frame.orderBy(*by) if by else frame


def _of_text(part: str, frame: DataFrame, name: str) -> Column:
    """A key's value from its text, the inverse of `plain`; null, which equals nothing, where it is none."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql import types as T  # noqa: N812

    kind = frame.schema[name].dataType
    if isinstance(kind, T.BinaryType):
        return F.unbase64(F.lit(part))
    if isinstance(kind, T.DayTimeIntervalType | T.StructType | T.ArrayType | T.MapType):
        raise BadRequest(
            f"the key column {name} is of type {kind.simpleString()}, which has no text here",
            hint="ask for the rows without a key",
        )
    return F.lit(part).try_cast(kind)


def resolved(as_of: str, reached: Position, cluster: Cluster, view: str) -> Position:
    """The next offset of every partition that the view has read; those that `as_of` does not name are as far
    as the view is."""
    places = [(topic, p) for topic, each in reached.offsets.items() for p in each]
    if "=" in as_of:
        named = {
            (topic, p): offset
            for topic, each in Position.parse(as_of).offsets.items()
            for p, offset in each.items()
        }
        if unknown := sorted(set(named) - set(places)):
            topic, partition = unknown[0]
            raise BadRequest(
                f"the view {view!r} has read nothing of {topic}:{partition}",
                hint=f"it is at {reached}",
            )
    else:
        time_ms = _time_ms(as_of)
        later = cluster.list_offsets(dict.fromkeys(places, time_ms + 1))
        named = {
            place: min(offset, reached.offset(*place))
            for place, offset in later.items()
            if offset >= 0
        }
    offsets: dict[str, dict[int, int]] = {}
    for topic, partition in places:
        most = reached.offset(topic, partition)
        wanted = named.get((topic, partition), most)
        if wanted > most:
            raise BadRequest(
                f"the view {view!r} has come to {topic}:{partition}={most} only",
                hint=f"headwater wait {view} --position {topic}:{partition}={wanted} waits for it",
            )
        offsets.setdefault(topic, {})[partition] = wanted
    return Position(offsets)


def _time_ms(text: str) -> int:
    with suppress(NoSuchState):
        time_ms = parse_as_of(text).time_ms
        if time_ms is not None:
            return time_ms
    raise BadRequest(
        f"{text!r} is neither a position nor a time",
        hint="write orders:0=17, or 2026-11-15T15:00:00",
    )


def _remarks(position: Position, cluster: Cluster, order: application.Order) -> list[str]:
    """What the log no longer says of that time."""
    places = [(topic, p) for topic, each in position.offsets.items() for p in each]
    begins = cluster.list_offsets(dict.fromkeys(places, EARLIEST))
    said = []
    with Log(order.bootstrap, order.client) as log:
        for topic in sorted(position.offsets):
            if any(begins[place] > 0 for place in places if place[0] == topic):
                said.append(f"The first records of {topic} are gone: what they said is missing.")
            if topics.named(log, topic).is_compacted:
                said.append(
                    f"{topic} is compacted: a row that has changed since may be missing, or older."
                )
    return said
