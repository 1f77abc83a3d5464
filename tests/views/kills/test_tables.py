"""kill -9 of the driver in the middle of batches of views over tables, which share what is read.

Under a continuous load of inserts, updates and deletes. Each view has a state and a position of its own; at
the end every one of them is its source, row by row. `make soak` kills more often.
"""

from __future__ import annotations

import random
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

import headwater.testing
from tests.conftest import SOAK
from tests.spark.run.desk import Desk
from tests.spark.run.process import RunProcess
from tests.views.kills.load import Load

PIPELINE = """
import headwater as hw

def rows():
    options = {"maxOffsetsPerTrigger": "400"}
    row = "id BIGINT, n BIGINT, note STRING"
    return hw.table("shop.orders", schema=row, key="id", options=options).where("n >= 0")

for name in ("first", "second"):
    hw.view(name, key="id", to=f"sqlite:{name}.db")(lambda: rows().select("id", "n", "note"))
"""
VIEWS = ("first", "second")


def rows_of(folder: Path, view: str) -> list[tuple[Any, ...]]:
    connection = sqlite3.connect(folder / f"{view}.db")
    try:
        return connection.execute(f"SELECT id, n, note FROM {view} ORDER BY id").fetchall()
    finally:
        connection.close()


@pytest.mark.soak  # four JVMs; in `make test` two such views are among those of test_kills
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(5) if SOAK else [1])
def test_after_kills_of_the_driver_every_view_over_tables_is_its_source(tmp_path: Path, seed: int):
    chance = random.Random(seed)
    with headwater.testing.broker(settings={"num.partitions": 2}) as broker:
        desk = Desk(None, broker.bootstrap, tmp_path)  # type: ignore[arg-type]
        desk.log.ensure_topic("shop.orders", {}, partitions=2)
        (tmp_path / "views.py").write_text(PIPELINE)

        def start() -> RunProcess:
            words = ("views.py", "--bootstrap", broker.bootstrap, "--master", "local[2]")
            return RunProcess(tmp_path, *words)

        def least() -> int:
            return min(desk.committed(f"headwater-{view}", "shop.orders") for view in VIEWS)

        with Load(broker.bootstrap, "shop.orders", seed) as load:
            for _ in range(10 if SOAK else 2):
                with start() as run:
                    begin = least()
                    run.wait_until(lambda: least() >= begin + 100, "100 more records")  # noqa: B023
                    time.sleep(chance.random())  # the moment is chance, and that is the test
                    run.kill()
            load.stop()
            with start() as run:
                run.wait_until(lambda: least() == load.sent, "all records")
                assert run.stop() == 0
                assert "Traceback" not in run.output
        desk.log.close()
        expected = [(r["id"], r["n"], r["note"]) for _, r in sorted(load.rows.items())]
        for view in VIEWS:
            assert rows_of(tmp_path, view) == expected, view
