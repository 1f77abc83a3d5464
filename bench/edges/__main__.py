"""`python -m bench.edges`: events in by HTTP and UDP, a changefeed to a thousand clients; beside peers."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import resource
import sys
import tempfile
from pathlib import Path

from bench.broker import machine
from bench.edges import fan_out, http_in, udp_in
from bench.edges.plan import Plan, quick
from bench.edges.servers import HEADWATER, broker
from bench.spark.results import Results

KINDS = {"http": http_in.measure, "udp": udp_in.measure, "feeds": fan_out.measure}
RESULTS = Path(__file__).parents[1] / "results"
UNITS = {
    "per_s": "records/s",
    "sent_per_s": "sent/s",
    "p50_ms": "ms p50",
    "p99_ms": "ms p99",
    "lost_percent": "% lost",
    "kb_per_client": "kB a client",
    "cpu_s_per_million": "CPU s a million",
}


def main() -> int:
    words = argparse.ArgumentParser(prog="python -m bench.edges", description=__doc__)
    words.add_argument("--quick", action="store_true", help="half a minute, for a first look")
    words.add_argument("--only", action="append", choices=tuple(KINDS), help="(repeatable)")
    words.add_argument("--clients", type=int, help="of the changefeed (default: 1,000)")
    words.add_argument("--seconds", type=float, help="of each measurement of events in")
    words.add_argument("--home", type=Path, help="where the log goes (default: temporary folder)")
    words.add_argument(
        "--json",
        type=Path,
        default=RESULTS / "last-edges.json",
        metavar="FILE",
        help="where the figures go (the documentation quotes bench/results/edges.json)",
    )
    chosen = words.parse_args()
    plan = quick() if chosen.quick else Plan()
    given = {"clients": chosen.clients, "seconds": chosen.seconds}
    plan = dataclasses.replace(plan, **{k: v for k, v in given.items() if v is not None})
    _allow_connections(2 * plan.clients + 200)
    results = Results()
    with tempfile.TemporaryDirectory(prefix="bench-edges-", dir=chosen.home) as folder:
        about = machine.describe(Path(folder))
        with broker(Path(folder)) as running:
            for name in chosen.only or KINDS:
                print(f"{name} …", file=sys.stderr, flush=True)
                KINDS[name](results, Path(folder), running.bootstrap, plan)
                _show(results)
    _save(chosen.json, about, plan, results)
    print(f"\nfigures: {os.path.relpath(chosen.json)}")
    return 0


def _allow_connections(wanted: int) -> None:
    """For this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(wanted, 65_536)), hard))


_SHOWN: set[str] = set()


def _show(results: Results) -> None:
    for scenario, contestants in results.values.items():
        if scenario in _SHOWN:
            continue
        _SHOWN.add(scenario)
        print(f"\n{scenario}")
        ours = results.median(scenario, HEADWATER, "per_s")
        for name, series in contestants.items():
            said = "".join(
                f"{results.median(scenario, name, m):>12,.5g} {UNITS[m]}" for m in series
            )
            rate = results.median(scenario, name, "per_s")
            if ours and rate and name != HEADWATER:
                said += f"   headwater is {ours / rate:.2g}x"
            print(f"  {name:32}{said}", flush=True)


def _save(path: Path, about: dict[str, str | float], plan: Plan, results: Results) -> None:
    document = {
        "machine": {
            k: v
            for k, v in about.items()
            if k != "java" and ("kafka" not in k or k == "confluent_kafka")
        },
        "plan": dataclasses.asdict(plan),
        "measurements": results.as_json(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
