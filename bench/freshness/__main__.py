"""`python -m bench.freshness`: commit in the database → visible in the view, and what it costs."""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from bench.broker import machine
from bench.freshness.measure import Figures, measure, say
from bench.freshness.scenarios import SCENARIOS

REPOSITORY = Path(__file__).resolve().parents[2]


def main() -> int:
    arguments = _arguments()
    found: dict[str, dict[str, Figures]] = {}
    try:
        for name in arguments.only or SCENARIOS:
            say(f"{name} …")
            with tempfile.TemporaryDirectory(prefix="bench-freshness-", dir=arguments.home) as home:
                found[name] = measure(
                    SCENARIOS[name],
                    Path(home) / "project",
                    orders=500 if arguments.quick else 2_000,
                    warm_s=8 if arguments.quick else 20,
                    seconds=arguments.seconds or (12 if arguments.quick else 60),
                )
            _show(name, found[name])
    except KeyboardInterrupt:
        return 130
    finally:
        about = machine.describe(Path(tempfile.gettempdir()))
        arguments.json.write_text(json.dumps({"machine": about, "scenarios": found}, indent=1))
        say(f"figures: {os.path.relpath(arguments.json)}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.freshness",
        description="From the commit in a database until a view shows it: p50, p99 and CPU.",
    )
    parser.add_argument("--quick", action="store_true", help="fewer rows and 12 s of load each")
    parser.add_argument(
        "--only", action="append", choices=tuple(SCENARIOS), help="only this (repeatable)"
    )
    parser.add_argument("--seconds", type=float, help="how long to write (default: 60)")
    parser.add_argument("--home", type=Path, help="where projects go (default: temporary folder)")
    parser.add_argument(
        "--json",
        type=Path,
        default=REPOSITORY / "bench" / "results" / "last-freshness.json",
        metavar="FILE",
        help="where the figures go",
    )
    return parser.parse_args()


def _show(name: str, found: dict[str, Figures]) -> None:
    print(f"\n{name}  (to reach: {SCENARIOS[name].goal})")
    for view, figures in found.items():
        if "p50_s" not in figures:
            continue
        line = f"  {view:<14} p50 {figures['p50_s'] * 1000:6,.0f} ms   p99 {figures['p99_s'] * 1000:6,.0f} ms"
        line += f"   {figures['measured']:,.0f} rows"
        if "back_s" in figures:
            line += (
                f"   kill: back after {figures['back_s']:.1f} s, {figures['held_up']:.0f} held up"
            )
        print(line)
    own = found[name]
    parts = ", ".join(
        f"{part[4:]} {cores:.2f}"
        for part, cores in sorted(own.items())
        if part.startswith("cpu_") and part not in ("cpu_all", "cpu_cores")
    )
    print(
        f"  CPU {own['cpu_cores']:.2f} cores ({parts}); ready after {own['ready_s']:.1f} s",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
