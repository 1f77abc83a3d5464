"""`python -m bench.views`: rows into every target beside the obvious alternative, and a rebuild."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from bench.broker import machine
from bench.spark.results import Results
from bench.spark.session import REPOSITORY
from bench.views import measure, rebuild, report, rows
from bench.views.contestants import NAMES, Servers, servers
from bench.views.jdbc import driver_jar
from bench.views.loops import UNIT

REBUILD = "rebuild"
REBUILT = ("duckdb", "postgresql")


def main() -> int:
    arguments = _arguments()
    try:
        with tempfile.TemporaryDirectory(prefix="bench-views-", dir=arguments.home) as home:
            _run(arguments, Path(home))
    except KeyboardInterrupt:
        return 130
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.views",
        description="Write the same rows into every store, by headwater and by the obvious means.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a quarter of the rows, a tenth of the changes"
    )
    parser.add_argument(
        "--only", action="append", choices=(*NAMES, REBUILD), help="only this (repeatable)"
    )
    parser.add_argument("--rows", type=int, help="keys in each store (default: 1 million)")
    parser.add_argument("--batch", type=int, help="rows of a micro-batch (default: 250,000)")
    parser.add_argument("--changes", type=int, help="of the rebuild (default: 5 million)")
    parser.add_argument(
        "--rebuilt",
        action="append",
        choices=REBUILT,
        help="rebuild only in this store (repeatable)",
    )
    parser.add_argument("--home", type=Path, help="where the stores go (default: temporary folder)")
    parser.add_argument(
        "--json",
        type=Path,
        default=REPOSITORY / "bench" / "results" / "last-views.json",
        metavar="FILE",
        help="where the figures go (the documentation quotes bench/results/views.json)",
    )
    return parser.parse_args()


def _run(arguments: argparse.Namespace, home: Path) -> None:
    small = 10 if arguments.quick else 1
    count = arguments.rows or (250_000 if arguments.quick else 1_000_000)
    batch = min(arguments.batch or 250_000, max(1, count // 2))
    changes = arguments.changes or 5_000_000 // small
    loop_rows = min(batch, 25_000 if arguments.quick else 100_000)
    kinds = tuple(arguments.only or (*NAMES, REBUILD))
    results, about = Results(), machine.describe(home)
    stores = tuple(name for name in NAMES if name in kinds)
    rebuilt = tuple(arguments.rebuilt or REBUILT) if REBUILD in kinds else ()
    needed = (*stores, *rebuilt)
    try:
        with servers(needed) as running:
            if stores:
                _stores(home, stores, count, batch, loop_rows, running, results)
            if rebuilt:
                addresses = _addresses(home, running, rebuilt)
                rebuild.measure(results, home, changes, addresses, changes // 5)
    finally:  # what was measured before something failed is worth keeping
        report.show(about, results)
        plan: dict[str, object] = {"rows": count, "batch": batch, "loop_rows": loop_rows}
        plan |= {"loop_commit_rows": UNIT, "rebuild_changes": changes}
        report.save(arguments.json, about, plan, results)
        print(f"\nfigures: {os.path.relpath(arguments.json)}")


def _stores(
    home: Path,
    names: tuple[str, ...],
    count: int,
    batch: int,
    loop_rows: int,
    running: Servers,
    results: Results,
) -> None:
    from headwater.pipelines.session import session

    files = rows.write(home / "rows", 2, count, batch)
    jar = driver_jar() if "postgresql" in names else None
    spark = session("local[2]", jars=[jar] if jar else [], log_file=home / "spark.log")
    try:
        measure.warm_up(spark, home, files[0])
        for name in names:
            print(f"{name} …", file=sys.stderr, flush=True)
            measure.measure(
                spark, results, name, home, files, loop_rows, running, jdbc=jar is not None
            )
    finally:
        spark.stop()


def _addresses(home: Path, running: Servers, names: tuple[str, ...]) -> dict[str, str]:
    found = {}
    if "duckdb" in names:
        found["duckdb"] = f"duckdb:{home / 'rebuilt.duckdb'}"
    if "postgresql" in names:
        assert running.postgres is not None
        running.postgres.execute("CREATE DATABASE rebuilt")
        found["postgresql"] = running.postgres.url("rebuilt")
    return found


if __name__ == "__main__":
    sys.exit(main())
