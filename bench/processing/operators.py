"""The operators of `headwater.processing`, each as its user would write it, over the benchmark's topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import headwater as hw
from headwater.processing import joins, percolator
from headwater.processing.event_time.events import event_stream
from headwater.processing.patterns import match
from headwater.processing.windows import session_window, tumbling

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headwater.processing.windows import Window

SCHEMA = "k STRING, x INT, at TIMESTAMP"
LATENESS = "1 second"
WINDOW_S, GAP_S, RANGE_S, WITHIN_S = 10, 2, 1, 600
PATTERN = "A B+ C"
DEFINE = {"A": "x < 3", "B": "x between 3 and 6 and x > A.x", "C": "x > 6"}
Operator = Callable[[str, dict[str, str]], "DataFrame"]
"""(the stem of its topics, options of its sources) → the result"""


def windows(stem: str, options: dict[str, str]) -> DataFrame:
    return _aggregated(stem, options, tumbling(f"{WINDOW_S} seconds"))


def sessions(stem: str, options: dict[str, str]) -> DataFrame:
    return _aggregated(stem, options, session_window(f"{GAP_S} seconds"))


def _aggregated(stem: str, options: dict[str, str], window: Window) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    rows = event_stream(
        stem, schema=SCHEMA, time="at", lateness=LATENESS, window=window, options=options
    )
    return rows.groupBy("window", "k").agg(F.count("*").alias("n"), F.sum("x").alias("total"))


def join(stem: str, options: dict[str, str]) -> DataFrame:
    half = {**options, "maxOffsetsPerTrigger": str(int(options["maxOffsetsPerTrigger"]) // 2)}
    left = hw.stream(f"{stem}-left", schema=SCHEMA, options=half)
    right = hw.stream(f"{stem}-right", schema=SCHEMA, options=half)
    return joins.within(
        left,
        right.withColumnsRenamed({"x": "y", "at": "then"}),
        on="k",
        times=("at", "then"),
        between=("0 seconds", f"{RANGE_S} seconds"),
        how="inner",
        lateness=LATENESS,
    )


def as_of(stem: str, options: dict[str, str]) -> DataFrame:
    half = {**options, "maxOffsetsPerTrigger": str(int(options["maxOffsetsPerTrigger"]) // 2)}
    left = hw.stream(f"{stem}-left", schema=SCHEMA, options=half)
    table = joins.changes(
        f"{stem}-right", schema="k STRING, x INT, at TIMESTAMP", key="k", options=half
    )
    renamed = left.withColumnsRenamed({"x": "y", "at": "then"})
    return joins.as_of(renamed, table, at="then", valid_from="at", lateness=LATENESS)


def patterns(stem: str, options: dict[str, str]) -> DataFrame:
    rows = hw.stream(stem, schema=SCHEMA, options=options)
    return match(
        rows.withWatermark("at", LATENESS),
        key="k",
        pattern=PATTERN,
        define=DEFINE,
        within=f"{WITHIN_S} seconds",
        measures={"rises": "count(B)", "top": "C.x"},
    )


def search(stem: str, options: dict[str, str]) -> DataFrame:
    documents = hw.stream(f"{stem}-documents", schema="id STRING, text STRING", options=options)
    return percolator.match(documents, f"{stem}-queries", keep="id", fields=["text"])


OPERATORS: dict[str, Operator] = {
    "windows": windows,
    "sessions": sessions,
    "join": join,
    "as-of": as_of,
    "patterns": patterns,
    "search": search,
}
