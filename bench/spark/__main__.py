"""`python -m bench.spark`: the Spark source beside Spark's own Kafka connector, in one run."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from bench.broker import machine
from bench.broker.contestants import HEADWATER_OS, KAFKA_OS, CannotRun, running
from bench.spark import first, latency, replay, report
from bench.spark.connector import connector_jars
from bench.spark.data import fill
from bench.spark.results import Results
from bench.spark.session import REPOSITORY, TUNED, session
from headwater.testing.kafka_jars import MissingServer

KINDS = ("replay", "queries", "first", "latency")
PARTITIONS = 4
SIZES = (100, 1000)


def main() -> int:
    arguments = _arguments()
    try:
        connector_jars()
        with tempfile.TemporaryDirectory(prefix="bench-spark-", dir=arguments.home) as home:
            _run(arguments, Path(home))
    except (CannotRun, MissingServer) as error:
        print(f"cannot run: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.spark",
        description="Run the Spark source and Spark's Kafka connector side by side, print ratios.",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, two rounds")
    parser.add_argument("--only", action="append", choices=KINDS, help="only this (repeatable)")
    parser.add_argument("--records", type=int, help="records per topic (default: 5 million)")
    parser.add_argument("--rounds", type=int, help="rounds that count (default: 3)")
    parser.add_argument(
        "--size", type=int, action="append", help="record sizes (default: 100, 1000)"
    )
    parser.add_argument("--home", type=Path, help="where the logs go (default: temporary folder)")
    parser.add_argument(
        "--json",
        type=Path,
        default=REPOSITORY / "bench" / "results" / "last-spark.json",
        metavar="FILE",
        help="where the figures go (the documentation quotes bench/results/spark.json)",
    )
    parser.add_argument(
        "--add", action="store_true", help="keep what the file has of other measurements"
    )
    return parser.parse_args()


def _run(arguments: argparse.Namespace, home: Path) -> None:
    records = arguments.records or (500_000 if arguments.quick else 5_000_000)
    rounds = arguments.rounds or (2 if arguments.quick else 3)
    kinds = arguments.only or KINDS
    results = Results()
    about = machine.describe(home)
    with running((HEADWATER_OS, KAFKA_OS), home) as (ours, theirs):
        brokers = (ours.bootstrap, theirs.bootstrap)
        if "first" in kinds:
            fill(theirs.bootstrap, "small", 1, 1000, 100)
            first.measure(results, theirs.bootstrap, "small", 1 if arguments.quick else rounds)
        with contextlib.closing(_Session()) as spark:
            queries = [replay.ALL] if "replay" in kinds else []
            if "queries" in kinds:
                queries += [replay.VALUE, replay.AGGREGATE]
            for size in (arguments.size or SIZES) if queries else ():
                _replay(spark, results, brokers, records, rounds, size, queries)
        if "latency" in kinds:
            with contextlib.closing(_Session(TUNED)) as spark:
                for each in brokers:
                    for source in ("headwater", "kafka"):
                        fill(each, f"latency-{source}", 1, 1, 20)
                latency.measure(spark.spark, results, brokers, 8 if arguments.quick else 25)
    report.show(about, results)
    plan: dict[str, object] = {"records": records, "rounds": rounds, "partitions": PARTITIONS}
    report.save(arguments.json, about, plan, results, add=arguments.add)
    print(f"\nfigures: {os.path.relpath(arguments.json)}")


class _Session:
    """Started when it is first used."""

    def __init__(self, more: dict[str, str] | None = None) -> None:
        self._more = more
        self._found: SparkSession | None = None
        self.is_warm = False

    @property
    def spark(self) -> SparkSession:
        if self._found is None:
            self._found = session(more=self._more)
        return self._found

    def close(self) -> None:
        if self._found is not None:
            self._found.stop()


def _replay(
    session: _Session,
    results: Results,
    brokers: tuple[str, str],
    records: int,
    rounds: int,
    size: int,
    queries: list[replay.Query],
) -> None:
    topic = f"{size}-bytes"
    for each in brokers:
        count = fill(each, topic, PARTITIONS, records, size)
    for query in queries:
        warm_up = 1 if session.is_warm else 2
        replay.measure(session.spark, results, topic, count, brokers, rounds, warm_up, query)
        session.is_warm = True


if __name__ == "__main__":
    sys.exit(main())
