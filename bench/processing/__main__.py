"""`python -m bench.processing`: rows a second and memory of every operator, beside its peers, in one run."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from bench.broker import machine
from bench.processing import data, ours, peers, report
from bench.processing.operators import OPERATORS
from bench.spark.results import Results
from bench.spark.session import REPOSITORY
from headwater.project.broker_process import BrokerProcess
from headwater.testing.kafka_jars import MissingServer

KEYS = (1_000, 100_000)
QUERIES = (1_000, 20_000)
"""Stored queries take the place of keys in the search."""


def main() -> int:
    arguments = _arguments()
    try:
        with tempfile.TemporaryDirectory(prefix="bench-processing-", dir=arguments.home) as home:
            Run(arguments, Path(home)).everything()
    except KeyboardInterrupt:
        return 130
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.processing",
        description="Every operator of headwater.processing, beside what one would pick instead.",
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument(
        "--only", action="append", choices=tuple(OPERATORS), help="only this (repeatable)"
    )
    parser.add_argument("--keys", type=int, action="append", help="(repeatable; 1,000 and 100,000)")
    parser.add_argument("--rows", type=int, help="of each topic of events (default: 1 million)")
    parser.add_argument("--batch", type=int, help="rows of a micro-batch (default: a fifth)")
    parser.add_argument("--without-peers", action="store_true", help="headwater alone")
    parser.add_argument("--home", type=Path, help="where logs go (default: temporary folder)")
    parser.add_argument(
        "--json",
        type=Path,
        default=REPOSITORY / "bench" / "results" / "last-processing.json",
        metavar="FILE",
        help="where the figures go (the documentation quotes bench/results/processing.json)",
    )
    return parser.parse_args()


class Run:
    def __init__(self, arguments: argparse.Namespace, home: Path) -> None:
        self._home, self._json = home, arguments.json
        self._rows = arguments.rows or (100_000 if arguments.quick else 1_000_000)
        self._batch = arguments.batch or self._rows // 5
        self._kinds = tuple(arguments.only or OPERATORS)
        self._keys = tuple(arguments.keys or KEYS)
        self._with_peers = not arguments.without_peers
        self._documents = max(1_000, self._rows // 20)
        self._results, self._left_out = Results(), list[str]()
        self._versions: dict[str, str] = {}

    def everything(self) -> None:
        about = machine.describe(self._home)
        try:
            with BrokerProcess(self._home / "log", durability="os") as broker:
                broker.start()
                self._measure(broker.bootstrap)
                broker.stop()
        finally:  # what was measured before something failed is worth keeping
            report.show(about, self._versions, self._results, self._left_out)
            plan: dict[str, object] = {"rows": self._rows, "batch": self._batch, "keys": self._keys}
            plan |= {"documents": self._documents, "versions": self._versions}
            report.save(self._json, about, plan, self._results, self._left_out)
            print(f"\nfigures: {os.path.relpath(self._json)}")

    def _measure(self, bootstrap: str) -> None:
        spark = ours.start(self._home, bootstrap)
        try:
            for keys in self._keys:
                self._write(bootstrap, keys)
                for kind in self._kinds:
                    if kind != "search":
                        self._ours(kind, f"{kind}, {keys:,} keys", f"keys-{keys}")
            if "search" in self._kinds:
                for count in QUERIES:
                    self._write_search(bootstrap, count)
                    self._ours("search", f"search, {count:,} queries", f"queries-{count}")
        finally:
            spark.stop()
        if self._with_peers:
            self._peers(bootstrap)

    def _ours(self, kind: str, scenario: str, stem: str) -> None:
        _say(f"{scenario}: {ours.NAME}")
        batch = self._batch if kind != "search" else self._documents // 5
        try:
            self._results.add(scenario, ours.NAME, ours.measure(kind, stem, batch, self._home))
        except Exception as error:  # the other operators are worth measuring all the same
            self._left_out.append(f"{ours.NAME}, {scenario}: {str(error)[:300]}")

    def _peers(self, bootstrap: str) -> None:
        for keys in self._keys:
            for kind in self._kinds:
                for peer, run in self._others(kind, keys, bootstrap):
                    self._peer(f"{kind}, {keys:,} keys", peer, run)
        if "search" in self._kinds:
            documents = data.documents(self._documents, 7)
            for count in QUERIES:
                stored = data.queries(count, 8)
                found = peers.loop(documents, stored, 5)
                self._results.add(f"search, {count:,} queries", peers.LOOP, found)

    def _others(
        self, kind: str, keys: int, bootstrap: str
    ) -> Iterator[tuple[str, Callable[[], peers.Figures]]]:
        for peer, kinds in peers.RUNS.items():
            if kind in kinds:
                folder = self._home / f"{peers.PACKAGES[peer]}-{kind}-{keys}"
                rows = min(self._rows, peers.QUIX_ROWS) if peer == peers.QUIX else self._rows
                words = [kind, bootstrap, f"keys-{keys}", str(rows), str(folder)]
                yield peer, partial(peers.run, peer, words)
        if kind == "patterns":
            yield peers.ESPER, lambda: peers.esper_patterns(data.events(self._rows, keys, 1))

    def _peer(self, scenario: str, peer: str, run: Callable[[], peers.Figures]) -> None:
        _say(f"{scenario}: {peer}")
        try:
            self._versions.setdefault(peer, peers.version(peer))
            self._results.add(scenario, peer, run())
        except (peers.Missing, MissingServer, RuntimeError) as missing:
            self._left_out.append(f"{scenario}: {missing}")

    def _write(self, bootstrap: str, keys: int) -> None:
        _say(f"{self._rows:,} rows with {keys:,} keys")
        stem = f"keys-{keys}"
        data.create(bootstrap, [stem, f"{stem}-left", f"{stem}-right"])
        if set(self._kinds) & {"windows", "sessions", "patterns"}:
            data.write(bootstrap, stem, _records(data.events(self._rows, keys, 1)))
        if set(self._kinds) & {"join", "as-of"}:
            half = self._rows // 2
            data.write(bootstrap, f"{stem}-left", _records(data.events(half, keys, 2)))
            data.write(bootstrap, f"{stem}-right", _records(data.events(half, keys, 3)))

    def _write_search(self, bootstrap: str, count: int) -> None:
        import json

        _say(f"{self._documents:,} documents and {count:,} queries")
        stem = f"queries-{count}"
        data.create(bootstrap, [f"{stem}-documents", f"{stem}-queries"])
        stored = (
            (f"q{n}", json.dumps({"query": f"+{one} +{other}"}).encode(), data.START_MS)
            for n, (one, other) in enumerate(data.queries(count, 8))
        )
        data.write(bootstrap, f"{stem}-queries", stored)
        texts = (
            (f"d{n}", json.dumps({"id": f"d{n}", "text": text}).encode(), data.START_MS + 1 + n)
            for n, text in enumerate(data.documents(self._documents, 7))
        )
        data.write(bootstrap, f"{stem}-documents", texts)


def _records(events: Iterator[data.Event]) -> Iterator[tuple[str, bytes, int]]:
    return ((each.key, each.value(), each.ms) for each in events)


def _say(sentence: str) -> None:
    print(f"{sentence} …", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
