"""Figures about many rows: large batches of a join, groups of a large table, one change of a million rows."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from bench.broker.meter import cpu_s, resident_mb
from bench.freshness.goals import Figures

MEGA = 1_000_000


def join(home: Path, *, quick: bool) -> Figures:
    """Changed rows a second in batches of 250,000, two tables of a million rows each."""
    import headwater.testing
    from bench.views.tables import BATCH, Bench, measured

    size, changes = (100_000, 100_000) if quick else (MEGA, BATCH)
    with _spark(home) as spark, headwater.testing.broker() as broker:
        bench = Bench(spark, broker.bootstrap, size, f"duckdb:{home / 'view'}", home)
        seconds, rows = bench.fill()
        found = measured(bench, changes, 3)
        bench.close()
    figures = {"per_s": changes / found["seconds"], "per_cpu_s": changes / found["cpu_s"]}
    return {**figures, "first_load_per_s": rows / seconds, **found}


def groups(home: Path, *, quick: bool) -> Figures:
    """CPU of 1,000 changes of five groups, over a large table and over a small one."""
    small, large = 100_000, MEGA if quick else 10 * MEGA
    with _spark(home) as spark:
        cpu = {size: _groups(spark, home / str(size), size) for size in (small, large)}
    return {"cpu_s": cpu[large], "to_small": cpu[large] / cpu[small], "rows": float(large)}


def _groups(spark: Any, folder: Path, size: int) -> float:
    import numpy as np
    import pyarrow as pa
    from pyspark.sql import functions as F  # noqa: N812

    from bench.views.tables import columns_of
    from headwater.views.tables.decoder import Table
    from headwater.views.tables.frames import computing
    from headwater.views.tables.planner import empty_frames, marked, plan
    from headwater.views.tables.upkeep import Upkeep

    def function(_: Any, frames: Mapping[int, Any]) -> Any:
        grouped = marked(frames[0], 0).groupBy("city")
        return grouped.agg(F.count("*").alias("n"), F.sum("cents").alias("cents"))

    table = Table("orders", columns_of("id BIGINT, city BIGINT, cents BIGINT"), ("id",))
    made = plan("totals", ("city",), function(spark, empty_frames(spark, [table])), [table])
    upkeep = Upkeep(made, folder)
    compute = computing(spark, made, function, folder)

    def changed(numbers: Any, turn: int) -> pa.Table:
        count = len(numbers)
        no, zeros = pa.array(np.zeros(count, bool)), pa.array(np.zeros(count, np.int32))
        places = pa.array(np.arange(count) + turn * size)
        return pa.table(
            {
                "c0": pa.array(numbers),
                "c1": pa.array(numbers % 5),
                "c2": pa.array(numbers + turn),
                "gone": no,
                "emptied": no,
                "m0": pa.nulls(count, pa.int64()),
                "p": zeros,
                "o": places,
                "ts": places,
            }
        )

    spent = []
    for turn in range(8):
        numbers = np.arange(size) if turn == 0 else np.arange(1000) * (size // 1000)
        changes = changed(numbers, turn)
        before = cpu_s(os.getpid())
        upkeep.apply(turn, partial(list, (changes,)), compute, lambda _: None)
        spent.append(cpu_s(os.getpid()) - before)
    upkeep.close()
    return sorted(spent[3:])[len(spent[3:]) // 2]


def touched(home: Path, *, quick: bool) -> Figures:
    """One customer of all orders gets another name: memory of the driver and its Java meanwhile, beyond what
    they have when the view is built."""
    import headwater.testing
    from bench.views.tables import Bench, Clock

    orders = MEGA // 10 if quick else MEGA
    with _spark(home) as spark, headwater.testing.broker() as broker:
        bench = Bench(spark, broker.bootstrap, orders, f"duckdb:{home / 'view'}", home)
        bench.fill(customers=1)
        bench.follow(2, Clock())
        with _peak_mb() as peak:
            seconds, spent = bench.follow(2, Clock())
        bench.close()
    return {"seconds": seconds, "cpu_s": spent, **peak, "rows": float(orders)}


@contextmanager
def _spark(home: Path) -> Any:
    from headwater.pipelines.session import session

    spark = session("local[2]", log_file=home / "spark.log")
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _peak_mb() -> Any:
    """The most memory of this process and its children, and how much more that is than in the beginning."""
    over, begin = threading.Event(), resident_mb(os.getpid())
    found = {"peak_mb": begin, "more_mb": 0.0}

    def look() -> None:
        while not over.wait(0.05):
            found["peak_mb"] = max(found["peak_mb"], resident_mb(os.getpid()))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
        found["more_mb"] = found["peak_mb"] - begin


def rebuild(home: Path, *, quick: bool) -> Figures:
    """`headwater rebuild` of a view in DuckDB, from the start of the process to the switch."""
    from bench.spark.results import Results
    from bench.views import rebuild as bench

    changes = 500_000 if quick else 5 * MEGA
    results = Results()
    bench.measure(results, home, changes, {"duckdb": f"duckdb:{home / 'rebuilt'}"}, changes // 5)
    return {
        f"{prefix}{figure}": results.median(
            f"rebuild of {changes:,} changes, duckdb{way}", "headwater rebuild", figure
        )
        or 0.0
        for prefix, way in zip(("", "table_"), bench.WAYS, strict=True)
        for figure in ("per_s", "seconds", "cpu_s")
    }


VOLUMES: dict[str, Callable[..., Figures]] = {
    "join": join,
    "groups": groups,
    "rebuild": rebuild,
    "touched": touched,
}


def alone(row: str, *, quick: bool, home: Path | None) -> Figures:
    """One of these rows in a process of its own: a Java of one row does not warm up another's."""
    import json

    words = [sys.executable, "-m", "bench.freshness.volume", row, *(["--quick"] if quick else [])]
    with tempfile.TemporaryDirectory(prefix="bench-freshness-", dir=home) as folder:
        done = subprocess.run([*words, folder], stdout=subprocess.PIPE, text=True, check=True)
    found: Figures = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    import json

    row, *quick, folder = sys.argv[1:]
    begin = time.monotonic()
    home = Path(folder) / row
    home.mkdir()
    found = VOLUMES[row](home, quick=bool(quick))
    print(json.dumps({**found, "whole_s": time.monotonic() - begin}))


if __name__ == "__main__":
    main()
