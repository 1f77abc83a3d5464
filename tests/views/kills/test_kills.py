"""kill -9 of the driver and of PostgreSQL in the middle of batches, many times, by seed.

Under a continuous load of inserts, updates and deletes. At the end the source equals every view row by
row, each record has been appended once, and each row that the database refuses is one dead letter.
`make soak` runs more rounds and other seeds.
"""

from __future__ import annotations

import json
import os
import random
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from confluent_kafka import Message

import headwater.testing
from tests.capture.postgres.server import PostgresServer, postgres
from tests.spark.run.desk import Desk
from tests.spark.run.process import RunProcess
from tests.views.kills.load import Load

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
PIPELINE = """
import headwater as hw

LIMIT = {"maxOffsetsPerTrigger": "400"}
ROW = "id BIGINT, n BIGINT, note STRING"

def changes():
    table = hw.table("shop.orders", schema=ROW, key="id", options=LIMIT)
    return table.select("id", "n", "note", "_deleted")

hw.view("orders", key="id", to="%(postgres)s")(changes)
hw.view("local", key="id", to="sqlite:shop.db", options={"table": "orders"})(changes)

# Over tables: they share what is read, and each has a state of its own.
def rows():
    return hw.table("shop.orders", schema=ROW, key="id", options=LIMIT).where("n >= 0")

hw.view("first", key="id", to="sqlite:first.db", options={"table": "orders"})(
    lambda: rows().select("id", "n", "note"))
hw.view("second", key="id", to="sqlite:second.db", options={"table": "orders"})(
    lambda: rows().select("id", "n", "note"))

# Its table refuses some rows by a rule of its own.
@hw.view("records", to="%(postgres)s")
def records():
    return hw.stream("shop.orders", options=LIMIT).selectExpr("partition AS p", "offset AS o")
"""


REFUSED = 7, 300
"""Offsets with this remainder by this number."""
RULE = f"CREATE TABLE records (p integer, o bigint CHECK (o % {REFUSED[1]} <> {REFUSED[0]}))"


def positions(server: PostgresServer) -> dict[str, int]:
    """View → how many records of the log are in it; nothing while the server is away."""
    try:
        found = server.execute("SELECT view, position FROM headwater_views WHERE batch IS NOT NULL")
    except psycopg.Error:
        return {}
    return {
        str(view): sum(sum(p.values()) for p in json.loads(str(said)).values())
        for view, said in found
    }


class Rounds:
    """What is killed when, from one seed."""

    def __init__(self, seed: int, server: PostgresServer, start: Callable[[], RunProcess]) -> None:
        self._random = random.Random(seed)
        self._server, self._start = server, start
        self.run = start()

    def __enter__(self) -> Rounds:
        return self

    def __exit__(self, *_: object) -> None:
        self.run.__exit__()  # the one of the moment: it has been started again and again

    def advance(self, by: int) -> None:
        """Wait until every view has so many more records than now."""
        begin = positions(self._server)
        self.run.wait_until(lambda: self._is_further(begin, by), f"{by} more records")

    def _is_further(self, begin: dict[str, int], by: int) -> bool:
        now = positions(self._server)
        return len(now) == 2 and all(now[view] >= begin.get(view, 0) + by for view in now)

    def kill_driver(self) -> None:
        time.sleep(self._random.random())  # the moment is chance, and that is the test
        self.run.kill()
        self.run = self._start()

    def kill_server(self) -> None:
        time.sleep(self._random.random())  # as above
        self._server.kill()
        self._server.start()


def all_records(desk: Desk) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Partition and offset of every record, and of those that the database refuses."""
    ends = desk.log.ends([("shop.orders", 0), ("shop.orders", 1)])
    every = [(partition, o) for (_, partition), end in sorted(ends.items()) for o in range(end)]
    return every, [each for each in every if each[1] % REFUSED[1] == REFUSED[0]]


def header(record: Message, name: str) -> str:
    found = dict(record.headers() or [])[f"__dlq.errors.{name}"]
    return found.decode() if isinstance(found, bytes) else str(found)


def rows_in_sqlite(path: Path) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT id, n, note FROM orders ORDER BY id").fetchall()
    finally:
        connection.close()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(5) if SOAK else [1])
def test_after_kills_of_driver_and_database_every_view_is_its_source_row_by_row(
    tmp_path: Path, seed: int
):
    with (
        headwater.testing.broker(settings={"num.partitions": 2}) as broker,
        postgres({"wal_level": "replica", "fsync": "on"}) as server,
    ):
        desk = Desk(None, broker.bootstrap, tmp_path)  # type: ignore[arg-type]
        desk.log.ensure_topic("shop.orders", {}, partitions=2)
        (tmp_path / "views.py").write_text(PIPELINE % {"postgres": server.url()})
        server.execute(RULE)

        def start() -> RunProcess:
            words = ("views.py", "--bootstrap", broker.bootstrap, "--master", "local[2]")
            return RunProcess(tmp_path, *words)

        with (
            Load(broker.bootstrap, "shop.orders", seed) as load,
            Rounds(seed, server, start) as rounds,
        ):
            pass_through(rounds, seed, 10 if SOAK else 1)
            load.stop()
            rounds.run.wait_until(
                lambda: set(positions(server).values()) == {load.sent}, "all records"
            )
            for name in ("local", "first", "second"):
                group = f"headwater-{name}"
                rounds.run.wait_until(
                    lambda group=group: desk.committed(group, "shop.orders") == load.sent,
                    f"SQLite, {name}",
                )
            assert rounds.run.stop() == 0
        every, refused = all_records(desk)
        assert len(every) == load.sent
        letters = [
            json.loads(header(each, "row")) for each in desk.records("dlq.headwater-records")
        ]
        assert sorted((row["p"], row["o"]) for row in letters) == refused
        assert refused
        desk.log.close()

        expected = [(r["id"], r["n"], r["note"]) for _, r in sorted(load.rows.items())]
        assert server.execute("SELECT id, n, note FROM orders ORDER BY id") == expected
        for name in ("shop", "first", "second"):
            assert rows_in_sqlite(tmp_path / f"{name}.db") == expected, name
        assert server.execute("SELECT p, o FROM records ORDER BY p, o") == [
            record for record in every if record not in refused
        ]
        left = server.execute("SELECT relname FROM pg_class WHERE relname LIKE 'headwater_stage%'")
        assert left == []
        assert "Traceback" not in rounds.run.output


def pass_through(rounds: Rounds, seed: int, times: int) -> None:
    order = random.Random(seed)
    for _ in range(times):
        kills = [rounds.kill_driver, rounds.kill_server]
        order.shuffle(kills)
        for kill in kills:
            rounds.advance(200)
            kill()
    rounds.advance(200)
