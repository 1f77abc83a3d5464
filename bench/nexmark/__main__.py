"""`python -m bench.nexmark`: Nexmark's queries by headwater, Flink SQL and Spark's connector, in one run.

First every query is checked against DuckDB, on few events; a wrong result ends the run with 1. Then each
engine reads the same topics of one broker, each query twice, of which the second counts.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.broker import machine
from bench.nexmark import check, flink, generate, page, rehearse
from bench.nexmark.events import Plan
from bench.nexmark.flink_queries import QUERIES as IN_FLINK
from bench.nexmark.ours import CONNECTOR, HEADWATER, Contestant
from bench.nexmark.reference import SQL
from bench.spark.connector import connector_jars
from headwater.pipelines.declarations import View
from headwater.project.broker_process import BrokerProcess
from headwater.testing.kafka_jars import MissingServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICK = ("q0", "q5", "q9", "q17")
"""One of each kind: a bid at a time, windows, a join with a rank, a total."""
TIMED = tuple(query for query in SQL if query not in check.OF_WINNERS)
FLINK_S = 900.0
ROUNDS = range(2)
"""The last one counts: in the first, Java compiles what the query needs, whoever the source is."""


def main() -> int:
    arguments = _arguments()
    with tempfile.TemporaryDirectory(prefix="bench-nexmark-", dir=arguments.home) as home:
        return Run(arguments, Path(home)).everything()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.nexmark", description="Nexmark: headwater beside Flink SQL and Spark."
    )
    parser.add_argument("--quick", action="store_true", help="few events, and four queries timed")
    parser.add_argument("--only", action="append", choices=tuple(SQL), help="(repeatable)")
    parser.add_argument("--events", type=int, help="(default: 1 million)")
    parser.add_argument("--without-peers", action="store_true", help="headwater alone")
    parser.add_argument("--without-check", action="store_true", help="rates alone")
    parser.add_argument("--home", type=Path, help="where logs go (default: temporary folder)")
    parser.add_argument(
        "--json",
        type=Path,
        default=page.LAST,
        metavar="FILE",
        help="where the figures go (docs/nexmark.md is made of bench/results/nexmark.json)",
    )
    return parser.parse_args()


class Run:
    def __init__(self, arguments: argparse.Namespace, home: Path) -> None:
        self._home, self._json = home, arguments.json
        self._plan = Plan(arguments.events or (200_000 if arguments.quick else 1_000_000))
        self._chosen, self._quick = tuple(arguments.only or SQL), arguments.quick
        timed = QUICK if arguments.quick and not arguments.only else self._chosen
        self._timed = [query for query in timed if query in TIMED]
        self._peers, self._check = not arguments.without_peers, not arguments.without_check
        self._wrong: dict[str, str] = {}
        self._figures: dict[str, dict[str, dict[str, float]]] = {}
        self._left_out: list[str] = []
        self._generated: dict[str, float] = {}

    def everything(self) -> int:
        about = machine.describe(self._home)
        if self._check:
            _say(f"{len(self._chosen)} queries beside DuckDB")
            self._wrong = rehearse.wrong(self._chosen, self._home, parts=1 if self._quick else 2)
        with BrokerProcess(self._home / "log", durability="os") as broker:
            broker.start()
            self._generate(broker.bootstrap)
            self._spark(broker.bootstrap)
            if self._peers:
                self._flink(broker.bootstrap)
            broker.stop()
        self._save(about | {"load_after": round(os.getloadavg()[0], 2)})
        print(page.table(json.loads(self._json.read_text())))
        for query, said in self._wrong.items():
            print(f"{query} is WRONG: {said}")
        return 1 if self._wrong else 0

    def _generate(self, bootstrap: str) -> None:
        generate.create(bootstrap)
        generate.compile_all()
        began, cpu = time.perf_counter(), time.process_time()
        generate.write(bootstrap, self._plan)
        seconds = time.perf_counter() - began
        cpu_s = time.process_time() - cpu
        self._generated = {"seconds": seconds, "cpu_s": cpu_s}
        _say(f"{self._plan.events / seconds:,.0f} events/s written")

    def _spark(self, bootstrap: str) -> None:
        names = [HEADWATER]
        jars = list[Path]()
        if self._peers:
            try:
                jars = connector_jars()
                names.append(CONNECTOR)
            except MissingServer as missing:
                self._left_out.append(f"{CONNECTOR}: {missing}")
        spark = self._session(jars)
        views = check.views()
        try:
            engines = [Contestant(spark, bootstrap, self._home, name) for name in names]
            for query in self._timed:
                for _ in ROUNDS:
                    for engine in engines:
                        self._measure(engine, query, views[query])
        finally:
            spark.stop()

    def _measure(self, engine: Contestant, query: str, view: View) -> None:
        _say(f"{query}: {engine.name}")
        try:
            self._add(query, engine.name, engine.measure(query, view))
        except Exception as error:  # the others are worth measuring all the same
            self._left_out.append(f"{engine.name}, {query}: {str(error)[:300]}")

    def _session(self, jars: list[Path]) -> SparkSession:
        from headwater.pipelines.session import session

        settings = {
            "spark.driver.memory": "3g",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        }
        if jars:
            settings["spark.jars"] = ",".join(map(str, jars))
        return session("local[2]", settings=settings, log_file=self._home / "spark.log")

    def _flink(self, bootstrap: str) -> None:
        queries = [query for query in self._timed if query in IN_FLINK]
        _say(f"{', '.join(queries)}: {flink.NAME}")
        try:
            for query, figures in flink.run(bootstrap, self._home / "flink", queries, FLINK_S):
                if isinstance(figures, str):
                    self._left_out.append(f"{flink.NAME}, {query}: {figures}")
                else:
                    self._add(query, flink.NAME, figures)
        except flink.Missing as missing:
            self._left_out.append(str(missing))

    def _add(self, query: str, engine: str, figures: dict[str, float]) -> None:
        rounded = {name: float(f"{value:.4g}") for name, value in figures.items()}
        self._figures.setdefault(query, {})[engine] = rounded

    def _save(self, about: dict[str, str | float]) -> None:
        document = {
            "machine": about,
            "events": self._plan.events,
            "generator": self._generated,
            "checked": list(self._chosen) if self._check else [],
            "wrong": self._wrong,
            "measurements": self._figures,
            "left_out": self._left_out,
        }
        self._json.parent.mkdir(parents=True, exist_ok=True)
        self._json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        print(f"figures: {os.path.relpath(self._json)}")


def _say(sentence: str) -> None:
    print(f"{sentence} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
