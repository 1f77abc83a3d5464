"""`python -m bench.freshness`: how fresh views are, what that costs, and what was to be reached."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.broker import machine
from bench.freshness import goals
from bench.freshness.goals import Figures
from bench.freshness.measure import measure, say
from bench.freshness.operate import operate
from bench.freshness.scenarios import SCENARIOS
from bench.freshness.volume import VOLUMES, alone
from headwater.pipelines import class_archive

REPOSITORY = Path(__file__).resolve().parents[2]
RESULTS = REPOSITORY / "bench" / "results"
KEPT, QUICK = RESULTS / "freshness.json", RESULTS / "last-freshness.json"
OPERATE = "operate"


def main() -> int:
    arguments = _arguments()
    file = arguments.json or (QUICK if arguments.quick else KEPT)
    document: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    kept: dict[str, Any] = document.get("rows", {})
    failed: list[str] = []
    about = machine.describe(Path(tempfile.gettempdir()))  # its load is of others still
    if not arguments.quick:
        # Else every project that runs for a minute begins to make it, at the expense of what is measured.
        say(class_archive.make())
    try:
        for row in arguments.only or goals.ROWS:
            say(f"{row} …")
            before = os.getloadavg()[0]
            try:
                found, views = _measured(row, arguments)
            except Exception as error:  # the others can be measured all the same
                say(f"{row} cannot be measured: {error}")
                failed.append(row)
                continue
            _show(found, views)
            if row == "ten" and "one" in kept:
                found["to_one"] = found["p50_s"] / kept["one"]["figures"]["p50_s"]
            kept[row] = {
                "measured": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
                "load_before": round(before, 2),
                "figures": {name: float(f"{value:.4g}") for name, value in found.items()},
            }
    except KeyboardInterrupt:
        return 130
    finally:
        file.write_text(json.dumps({"machine": about, "rows": kept}, indent=1) + "\n")
        say(f"figures: {os.path.relpath(file)}")
        figures = {row: each["figures"] for row, each in kept.items()}
        print("\n" + "\n".join(goals.lines(figures, arguments.only or goals.ROWS)), flush=True)
    return 1 if failed else 0


def _measured(row: str, arguments: argparse.Namespace) -> tuple[Figures, dict[str, Figures]]:
    """The row's figures; beside them those of the views that were looked at."""
    if row in VOLUMES:
        return alone(row, quick=arguments.quick, home=arguments.home), {}
    with tempfile.TemporaryDirectory(prefix="bench-freshness-", dir=arguments.home) as home:
        folder = Path(home) / "project"
        if row == OPERATE:
            return operate(folder, quick=arguments.quick), {}
        views = measure(
            SCENARIOS[row],
            folder,
            orders=500 if arguments.quick else 2_000,
            warm_s=8 if arguments.quick else 20,
            seconds=arguments.seconds or (12 if arguments.quick else 60),
        )
    found = views.pop(row)
    for each in views.values():  # the slowest counts
        found |= {name: max(value, found.get(name, 0.0)) for name, value in each.items()}
    return found, views


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.freshness",
        description="From the commit in a database until a view shows it, and what else views cost.",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the rows, and 12 s of load each"
    )
    parser.add_argument(
        "--only", action="append", choices=goals.ROWS, help="only this row (repeatable)"
    )
    parser.add_argument("--seconds", type=float, help="how long to write (default: 60)")
    parser.add_argument("--home", type=Path, help="where projects go (default: temporary folder)")
    parser.add_argument(
        "--json",
        type=Path,
        metavar="FILE",
        help="where the figures go, beside those of other rows (default: "
        "bench/results/freshness.json; of --quick, last-freshness.json, which git ignores)",
    )
    return parser.parse_args()


def _show(own: Figures, views: dict[str, Figures]) -> None:
    for view, figures in views.items():
        line = f"  {view:<14} p50 {figures['p50_s'] * 1000:6,.0f} ms   p99 {figures['p99_s'] * 1000:6,.0f} ms"
        line += f"   {figures['measured']:,.0f} rows"
        if "back_s" in figures:
            line += (
                f"   kill: back after {figures['back_s']:.1f} s, {figures['held_up']:.0f} held up"
            )
        print(line)
    print("  " + ", ".join(f"{name} {value:,.4g}" for name, value in own.items()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
