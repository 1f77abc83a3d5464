"""Any workload, any schema changes, runs that end anywhere: the strict reader ends with the tables."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from tests.capture.sqlite.drained import Log, ordered, table
from tests.capture.sqlite.reader import Reader
from tests.capture.sqlite.workload import TABLES, Workload, prepare

SEEDS = range(200) if os.environ.get("HEADWATER_SOAK") == "1" else range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_reader_ends_with_the_tables_whatever_happened(tmp_path: Path, seed: int) -> None:
    app = prepare(tmp_path / "a.db", mode=("WAL", "WAL", "DELETE")[seed % 3])
    workload, draw = Workload(app, seed, ddl=0.05), random.Random(seed)
    log = Log(tmp_path / "a.db")
    for _ in range(20):
        for _ in range(draw.randrange(1, 15)):
            workload.transaction()
        log.drain(batches_max=draw.choice((1, 1, 2, 100)))
    log.drain()
    reader = Reader()
    for record in log.records:
        key, value = (data and json.loads(data) for data in record[1:3])
        reader.take(record[0], key, value)
    assert reader.changes > 100
    for name in TABLES:
        rows = [
            {column: value for column, value in row.items() if column != "rowid"}
            for row in reader.tables[name].values()
        ]
        assert ordered(rows) == table(app, name), f"seed {seed}, {name}"
    app.close()


@pytest.mark.parametrize("damage", ["missing", "doubled"])
def test_the_reader_would_notice_a_change_that_is_missing_or_doubled(
    tmp_path: Path, damage: str
) -> None:
    app = prepare(tmp_path / "a.db")
    workload, log = Workload(app, "canary"), Log(tmp_path / "a.db", "orders", "lines")
    log.drain()
    for _ in range(60):
        workload.transaction()
    log.drain()
    changes = [
        (record[0], json.loads(record[1]), json.loads(record[2]))
        for record in log.records
        if record[0] in ("shop.orders", "shop.lines") and record[2] is not None
    ]
    unnoticed = 0
    for place in range(0, len(changes), 7):
        reader = Reader()
        harmed = changes[:place] + changes[place + 1 :]
        if damage == "doubled":
            harmed = [*changes[: place + 1], *changes[place:]]
        try:
            for change in harmed:
                reader.take(*change)
            unnoticed += all(
                ordered(reader.tables[name].values()) == table(app, name)
                for name in ("orders", "lines")
            )
        except (AssertionError, KeyError):
            pass
    app.close()
    assert unnoticed == 0
