"""Capture, broker and application are killed at random moments; every change is in the log once."""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from headwater.capture.positions import read_positions
from tests.capture.core.reading import Read, read
from tests.capture.sqlite.drained import ordered, table
from tests.capture.sqlite.reader import Reader
from tests.capture.sqlite.workload import TABLES, prepare
from tests.crash.process import BrokerProcess

SEEDS = range(20) if os.environ.get("HEADWATER_SOAK") == "1" else [1]
KILLS = 8 if os.environ.get("HEADWATER_SOAK") == "1" else 3
CHANGES_MIN = 1_000
DEADLINE_S = 100.0


class Child:
    """A module of these tests as a process that comes and goes."""

    def __init__(self, folder: Path, module: str, *words: str) -> None:
        self._words = [sys.executable, "-m", f"tests.capture.sqlite.{module}", *words]
        self.log = folder / f"{module}.log"

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(self._words, stdout=output, stderr=output)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def records(bootstrap: str) -> list[Read]:
    """All topics of the capture, in the order of the changes; tombstones left out."""
    topics = [f"shop.{name}" for name in (*TABLES, "schema-changes")]
    found = [one for topic in topics for one in read(bootstrap, topic) if one.value is not None]

    def place(one: Read) -> tuple[int, bool]:
        # A chunk shows the rows as of its change, so it comes after it.
        return one.value["source"]["seq"], one.value.get("op") == "r"

    return sorted(found, key=place)


def position(bootstrap: str) -> dict[str, Any]:
    stored = read_positions(bootstrap, ["shop"]).get("shop")
    return {"seq": -1, "snapshot": {}} if stored is None else stored["position"]


def pruned(app: sqlite3.Connection) -> int:
    """Changes below this one are in the log, and forgotten here."""
    try:
        return int(app.execute("SELECT min(seq) FROM _headwater_changes").fetchone()[0] or 0)
    except sqlite3.OperationalError:
        return 0  # not installed yet


@pytest.mark.timeout(900)  # many processes start and end, on a machine that others use too
@pytest.mark.parametrize("seed", SEEDS)
def test_each_change_is_in_the_log_once_whatever_is_killed(tmp_path: Path, seed: int) -> None:
    path, draw = tmp_path / "a.db", random.Random(seed)
    prepare(path).close()
    broker = BrokerProcess(tmp_path)
    capture = Child(tmp_path, "capture_worker", str(path), broker.bootstrap)
    writer = Child(tmp_path, "workload", str(path), str(seed))
    try:
        for one in (broker, writer, capture):
            one.start()
        app = sqlite3.connect(path)
        for _ in range(KILLS):
            before, end = pruned(app), time.monotonic() + DEADLINE_S
            while pruned(app) <= before:  # so that each life does something
                assert time.monotonic() < end, capture.log.read_text()[-2000:]
                time.sleep(0.05)
            time.sleep(draw.random() * 0.3)  # the moment of the kill, not a wait
            victim = draw.choice((broker, writer, capture, capture))
            victim.kill()
            victim.start()
        end = time.monotonic() + DEADLINE_S
        while app.execute("SELECT max(seq) FROM _headwater_changes").fetchone()[0] < CHANGES_MIN:
            assert time.monotonic() < end, writer.log.read_text()[-2000:]
            time.sleep(0.05)
        writer.kill()
        (last,) = app.execute("SELECT max(seq) FROM _headwater_changes").fetchone()
        end = time.monotonic() + DEADLINE_S
        while (
            (at := position(broker.bootstrap))["seq"] < last or "backfill" in at or "snapshot" in at
        ):
            assert time.monotonic() < end, capture.log.read_text()[-2000:]
            time.sleep(0.05)
            (last,) = app.execute("SELECT max(seq) FROM _headwater_changes").fetchone()
        reader = Reader()
        for one in records(broker.bootstrap):
            reader.take(one.topic, one.key, one.value)
        for name in TABLES:
            rows = [
                {column: value for column, value in row.items() if column != "rowid"}
                for row in reader.tables[name].values()
            ]
            assert ordered(rows) == table(app, name), f"seed {seed}, {name}"
        assert reader.changes > CHANGES_MIN // 10, (
            "the others came with snapshots, as kills would have it"
        )
        app.close()
    finally:
        for child in (writer, capture):
            if hasattr(child, "process"):
                child.kill()
        broker.end()
