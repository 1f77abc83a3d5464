"""One store at a time: headwater's target, Spark's own sink and the loops, on the same rows.

headwater does what a running view does with each micro-batch: Spark's tasks order and stage the rows, the
driver commits them with the position. The loops get their rows as Python has them, read before the clock
starts. Two rounds: all keys are new, then all are known.
"""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import SparkSession

from bench.spark.results import Results
from bench.views import rows as data
from bench.views.contestants import Servers, Store, store
from bench.views.loops import UNIT
from headwater.client.position import Position
from headwater.views.applier import Applying
from headwater.views.targets.contract import Shape
from headwater.views.targets.registry import target_for

HEADWATER = "headwater"
LOOP_S = 8.0
"""Long enough to know how slow a loop is."""
NEW, KNOWN = "new keys", "known keys"


def measure(
    spark: SparkSession,
    results: Results,
    name: str,
    home: Path,
    files: list[Path],
    loop_rows: int,
    running: Servers,
    *,
    jdbc: bool,
) -> None:
    """`files` are one batch each: the first half has new keys, the second the same ones again."""
    found = store(name, home / name, running)
    half = len(files) // 2
    rounds = {NEW: files[:half], KNOWN: files[half:]}
    _headwater(spark, results, found, rounds, home)
    for label, write in found.writes.items():
        if not jdbc:
            continue
        if "tuned" in label:
            assert running.postgres is not None
            running.postgres.execute("TRUNCATE sunk", database="bench")
        begin = time.perf_counter()
        for path in rounds[NEW]:
            write(data.frame(spark, path))
        _add(results, name, NEW, label, _count(rounds[NEW]), time.perf_counter() - begin)
    for label, loop in found.loops.items():
        for round_name, paths in rounds.items():
            rows = data.tuples(paths[0], loop_rows)
            done, begin = 0, time.perf_counter()
            while done < len(rows) and time.perf_counter() - begin < LOOP_S:
                loop(rows[done : done + UNIT])
                done += UNIT
            spent = time.perf_counter() - begin
            _add(results, name, round_name, label, min(done, len(rows)), spent)


def _headwater(
    spark: SparkSession,
    results: Results,
    found: Store,
    rounds: dict[str, list[Path]],
    home: Path,
) -> None:
    target = target_for(found.to, Shape("orders", data.SCHEMA, data.KEY))
    applying = Applying(target, str(home / f"{found.name}-checkpoint"))
    applying.begin()
    done, batch = 0, 0
    for round_name, paths in rounds.items():
        begin = time.perf_counter()
        for path in paths:
            done += _count([path])
            applying.apply(data.frame(spark, path), batch, Position({"orders": {0: done}}))
            batch += 1
        spent = time.perf_counter() - begin
        _add(results, found.name, round_name, HEADWATER, _count(paths), spent)
    with target.reading() as (applied, batches):
        held = sum(each.num_rows for each in batches)
    assert held == _count(rounds[NEW]), f"{found.name} holds {held} rows"
    assert applied is not None and applied.position.offset("orders", 0) == done


def warm_up(spark: SparkSession, home: Path, path: Path) -> None:
    """The first Python task of a session takes seconds, for whoever comes first."""
    target = target_for(f"sqlite:{home / 'warm.db'}", Shape("warm", data.SCHEMA, data.KEY))
    applying = Applying(target, str(home / "warm-checkpoint"))
    for batch in range(2):
        rows = data.frame(spark, path).limit(1000)
        applying.apply(rows, batch, Position({"orders": {0: batch + 1}}))


def _add(results: Results, name: str, round_name: str, who: str, count: int, spent: float) -> None:
    results.add(f"{name}, {round_name}", who, {"per_s": count / spent, "rows": float(count)})


def _count(paths: list[Path]) -> int:
    import pyarrow.parquet as pq

    return sum(pq.ParquetFile(path).metadata.num_rows for path in paths)
