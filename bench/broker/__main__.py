"""`python -m bench.broker`: run the measurements, print the tables, leave nothing behind."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from bench.broker import confluent, growth, javatools, latency, machine, meter, raw, report, start
from bench.broker.contestants import ALL, CannotRun, running
from bench.broker.plan import Plan, quick, say
from bench.broker.results import Results
from bench.broker.wire import Refused
from headwater.testing.apache_kafka import KafkaStartError, MissingServer, kafka_jars

REPOSITORY = Path(__file__).resolve().parents[2]
SIDE_BY_SIDE = {
    "raw": raw.measure,
    "confluent": confluent.measure,
    "java": javatools.measure,
    "latency": latency.measure,
}
NAMES = ("start", *SIDE_BY_SIDE, "growth")


def main() -> int:
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that brokers and files go too
    scratch = REPOSITORY / ".cache"  # not the temporary folder: fsync means nothing on a tmpfs
    scratch.mkdir(exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-", dir=scratch) as home:
            _run(arguments, _plan(arguments, Path(home)), arguments.only or NAMES)
    except (MissingServer, CannotRun, KafkaStartError, Refused) as error:
        print(f"bench: {error}", *getattr(error, "__notes__", ()), sep="\n", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.broker",
        description="Run headwater and Apache Kafka side by side and print ratios.",
    )
    parser.add_argument("--quick", action="store_true", help="about 90 s instead of 10 minutes")
    parser.add_argument(
        "--only", action="append", choices=NAMES, help="only this measurement (may be repeated)"
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=REPOSITORY / "bench" / "results" / "last.json",
        metavar="FILE",
        help="where the figures go (default: bench/results/last.json; the documentation quotes "
        "bench/results/broker.json)",
    )
    parser.add_argument("--rounds", type=int, help="how often each broker has its turn")
    parser.add_argument("--large-log-gb", type=float, help="size of the large log (default: 2)")
    return parser.parse_args()


def _plan(arguments: argparse.Namespace, home: Path) -> Plan:
    plan = quick(home) if arguments.quick else Plan(home)
    if arguments.rounds:
        turns = dict.fromkeys(("rounds", "java_rounds", "latency_rounds"), arguments.rounds)
        plan = dataclasses.replace(plan, **turns)
    if arguments.large_log_gb:
        plan = dataclasses.replace(plan, large_log_mb=int(arguments.large_log_gb * 1000))
    return plan


def _run(arguments: argparse.Namespace, plan: Plan, names: tuple[str, ...]) -> None:
    if shutil.which("java") is None:
        raise CannotRun("`java` is not installed: sudo apt-get install openjdk-17-jre-headless")
    kafka_jars()
    results = Results()
    about = machine.describe(plan.home)
    if "start" in names:
        start.measure(plan, results)
    if SIDE_BY_SIDE.keys() & set(names):
        _side_by_side(plan, names, results)
    if "growth" in names:
        growth.measure(plan, results)
    report.show(about, results, arguments.quick)
    report.save(arguments.json, about, plan, results)
    print(f"figures: {os.path.relpath(arguments.json)}")


def _side_by_side(plan: Plan, names: tuple[str, ...], results: Results) -> None:
    say("start four brokers")
    with running(ALL, plan.home) as brokers:
        for broker in brokers:
            results.add("memory", broker.contestant, {"idle_mb": meter.resident_mb(broker.pid)})
        raw.warm_up(plan, brokers)
        for name in (each for each in SIDE_BY_SIDE if each in names):
            SIDE_BY_SIDE[name](plan, brokers, results)
        for broker in brokers:
            results.add("memory", broker.contestant, {"loaded_mb": meter.resident_mb(broker.pid)})


if __name__ == "__main__":
    sys.exit(main())
