"""Capture, broker and database killed at random points, by seed: every committed change, once.

Afterwards the topics are compared with the journal (each transaction's changes, in order, once), and
their fold with the tables, value by value.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Interrupted
from headwater.capture.positions import read_positions
from headwater.capture.postgres import copy_rows
from headwater.capture.postgres.catalog import Catalog
from headwater.capture.postgres.chunks import chunk_query, copy_out
from headwater.capture.postgres.connection import connect
from headwater.capture.postgres.relations import Relations
from tests.capture.core.reading import Read, _json, fold, read
from tests.capture.postgres.running import eventually
from tests.capture.postgres.server import PostgresServer, postgres
from tests.capture.postgres.workload import SCHEMA, Change, Workload, journal
from tests.crash.process import BrokerProcess

TABLES = ("accounts", "ledger")
# The first stored position is looked at in the end: nothing may compact it away.
KEEP = {"log.cleaner.enable": False}


class CaptureProcess:
    """`headwater capture run` as a child, so that it can be killed."""

    def __init__(self, folder: Path, bootstrap: str, url: str) -> None:
        self._folder = folder
        self._bootstrap = bootstrap
        self._file = folder / "headwater.toml"
        self._file.write_text(
            f'[capture.shop]\nfrom = "{url}"\ntables = ["accounts", "ledger"]\n'
            "partitions = 2\nchunk_rows = 60\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        words = [sys.executable, "-m", "headwater", "capture", "run", "shop"]
        words += ["--file", str(self._file), "--bootstrap", self._bootstrap]
        with (self._folder / "capture.log").open("ab") as output:
            self._process = subprocess.Popen(words, stdout=output, stderr=output)

    def check(self) -> None:
        assert self._process is not None and self._process.poll() is None, self.said()

    def end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(60)
            self._process = None

    def said(self) -> str:
        return (self._folder / "capture.log").read_text()[-3000:]


@contextmanager
def everything(folder: Path) -> Iterator[tuple[PostgresServer, BrokerProcess, CaptureProcess]]:
    broker = BrokerProcess(folder)
    with postgres() as server:
        broker.start(**KEEP)
        server.execute(SCHEMA)
        capture = CaptureProcess(folder, broker.bootstrap, server.url())
        try:
            yield server, broker, capture
        finally:
            capture.end(signal.SIGKILL)
            broker.end()


def run(folder: Path, seed: int, transactions: int, kills: int) -> None:
    chance = random.Random(seed)
    print(f"seed {seed}")  # shown by a failure
    with everything(folder) as (server, broker, capture):
        workload = Workload(server.url(), seed)
        capture.start()
        moments = sorted(chance.sample(range(transactions), kills))
        seen: Any = None
        for n in range(transactions):
            workload.transaction()
            if moments and n == moments[0]:
                moments.pop(0)
                if chance.random() < 0.7:  # mostly where something is under way
                    seen = eventually("the capture moves", lambda: _moved(broker, seen))  # noqa: B023
                strike(chance, server, broker, capture)
        workload.close()
        [(mark,)] = server.execute("SELECT (pg_current_wal_lsn() - '0/0')::int8")
        capture.check()

        def there() -> bool:
            capture.check()
            stored = read_positions(broker.bootstrap, ["shop"]).get("shop", {}).get("position", {})
            return "snapshot" not in stored and stored.get("lsn", 0) >= mark

        # Something to be sent, or an idle server would be acknowledged only every ten seconds.
        server.execute("SELECT pg_logical_emit_message(true, 'end', '')")
        eventually("the capture has caught up", there, 90)
        capture.end(signal.SIGTERM)
        began = first_lsn(broker.bootstrap)
        topics = {table: read(broker.bootstrap, f"shop.{table}") for table in TABLES}
        compare_changes(topics, server.url(), began)
        compare_tables(topics, server.url())


def _moved(broker: BrokerProcess, seen: Any) -> Any:
    with suppress(Interrupted):  # the topic may just be in the making
        now = read_positions(broker.bootstrap, ["shop"]).get("shop")
        return now if now != seen else None
    return None


def strike(
    chance: random.Random, server: PostgresServer, broker: BrokerProcess, capture: CaptureProcess
) -> None:
    whom = chance.choice(["capture", "capture", "capture, gently", "broker", "database"])
    print(whom)
    if whom == "broker":
        broker.kill()
        broker.start(**KEEP)
    elif whom == "database":
        server.kill()
        server.start()
    else:
        capture.end(signal.SIGTERM if "gently" in whom else signal.SIGKILL)
        capture.start()


def first_lsn(bootstrap: str) -> int:
    """Where the slot began: the first position that was ever stored."""
    stored = read(bootstrap, "__headwater_capture")
    first = next(each.value["position"] for each in stored if each.value["position"] is not None)
    return int(first["lsn"])


def compare_changes(topics: dict[str, list[Read]], url: str, began: int) -> None:
    events: dict[int, list[tuple[int, int, Change]]] = defaultdict(list)
    for table, records in topics.items():
        for place, record in enumerate(records):
            if record.value is None or record.value["op"] == "r":
                continue
            value = record.value
            key = record.key
            shown = (
                f"{table}/{key['id']}"
                if table == "accounts"
                else f"{table}/{key['book']}/{key['line']}"
            )
            stamp = value["after"]["stamp"] if value["after"] else None
            order = value["transaction"]["total_order"]
            moved = 1 if value["op"] == "c" else 0  # of a key's change the delete comes first
            events[value["source"]["txId"]].append(
                (order, moved, Change(value["op"], shown, stamp))
            )
            assert place >= 0
    found = {xid: [c for _, _, c in sorted(e, key=lambda x: x[:2])] for xid, e in events.items()}
    expected, ends = journal(url)
    assert set(found) <= set(expected), "a change that was never committed"
    for xid, changes in expected.items():
        if xid in found:
            assert found[xid] == changes, f"transaction {xid}"
        else:
            assert ends[xid] < began, f"transaction {xid} is missing"
    assert found, "some changes came after the snapshot"


def compare_tables(topics: dict[str, list[Read]], url: str) -> None:
    connection = connect(url)
    try:
        config = CaptureConfig("shop", url)
        catalog = Catalog(connection)
        relations = Relations(config, "postgres", catalog)
        for table in catalog.tables("headwater_shop"):
            relation = relations.of_table(table)
            rows = copy_rows.rows(
                copy_out(connection, chunk_query(table, (), None, None)), relation.converters
            )
            there = {
                _text(relation.encoder.key(row)): _row(relation.encoder.row(row)) for row in rows
            }
            made = fold(topics[table.name])
            assert {_text(key) for key in made} == set(there)
            for key, row in made.items():
                # Columns that were added or dropped since are not in an older row's record.
                known = {name: row.get(name) for name in there[_text(key)]}
                assert known == there[_text(key)], key
    finally:
        connection.close()


def _text(key: Any) -> str:
    return str(_json(key if isinstance(key, bytes) else key.encode()))


def _row(text: str) -> Any:
    return _json(text.encode())


@pytest.mark.parametrize("seed", [7])
def test_every_committed_change_is_in_the_log_once(tmp_path: Path, seed: int) -> None:
    run(tmp_path, seed, transactions=150, kills=5)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("_", range(5))
def test_every_committed_change_is_in_the_log_once_for_long(tmp_path: Path, _: int) -> None:
    seed = int(os.environ.get("HEADWATER_SEED", random.SystemRandom().randrange(10**6)))
    run(tmp_path, seed, transactions=3000, kills=30)
