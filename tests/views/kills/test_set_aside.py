"""kill -9 of the driver while the function of a view over tables fails for every seventh row.

Under a continuous load of inserts, updates and deletes. At the end the view is its source but for these rows,
each batch has put each key away at most once, and a rebuild and `verify` say the same.
"""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
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

@hw.view("first", key="id", to="sqlite:first.db")
def first():
    options = {"maxOffsetsPerTrigger": "400"}
    rows = hw.table("shop.orders", schema="id BIGINT, n BIGINT", key="id", options=options)
    return rows.selectExpr("id", "n DIV IF(n % 7 = 0, 0, 1) AS n")
"""


def rows_of(folder: Path) -> dict[int, int]:
    connection = sqlite3.connect(folder / "first.db")
    try:
        name = "first"
        return dict(connection.execute(f"SELECT id, n FROM {name}").fetchall())
    finally:
        connection.close()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(3) if SOAK else [1])
def test_after_kills_a_view_lacks_the_keys_for_which_it_fails_and_no_others(
    tmp_path: Path, seed: int
):
    chance = random.Random(seed)
    with headwater.testing.broker(settings={"num.partitions": 2}) as broker:
        desk = Desk(None, broker.bootstrap, tmp_path)  # type: ignore[arg-type]
        desk.log.ensure_topic("shop.orders", {}, partitions=2)
        (tmp_path / "views.py").write_text(PIPELINE)
        words = ("views.py", "--bootstrap", broker.bootstrap, "--master", "local[2]")

        def committed() -> int:
            return desk.committed("headwater-first", "shop.orders")

        def asked(command: str, *more: str) -> str:
            """By the application that runs."""
            line = [sys.executable, "-m", "headwater", command, "first", *words, *more]
            found = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=600)
            assert found.returncode == 0, found.stdout + found.stderr
            return found.stdout

        def verified() -> dict[str, Any]:
            said: dict[str, Any] = json.loads(asked("verify", "--json"))
            return said

        with Load(broker.bootstrap, "shop.orders", seed) as load:
            for _ in range(10 if SOAK else 2):
                with RunProcess(tmp_path, *words) as run:
                    begin = committed()
                    run.wait_until(lambda: committed() >= begin + 100, "100 more records")  # noqa: B023
                    time.sleep(chance.random())  # the moment is chance, and that is the test
                    run.kill()
            load.stop()
            with RunProcess(tmp_path, *words) as run:
                run.wait_until(lambda: committed() == load.sent, "all records")
                expected = {key: row["n"] for key, row in load.rows.items() if row["n"] % 7}
                bad = {key for key, row in load.rows.items() if row["n"] % 7 == 0}
                assert rows_of(tmp_path) == expected
                report = verified()
                assert (report["right"], report["aside"]) == (True, len(bad))
                letters = desk.records("dlq.headwater-first")
                heads = [dict(each.headers()) for each in letters]
                values = [each.value() for each in letters]
                batches = [head["__dlq.errors.batch"] for head in heads]
                said = list(zip(values, batches, strict=True))
                assert len(said) == len(set(said))
                assert bad <= {json.loads(each.value())["id"] for each in letters}
                assert all(b"DIVIDE_BY_ZERO" in head["__dlq.errors.message"] for head in heads)
                asked("rebuild")
                report = verified()
                assert (report["right"], report["rows"], report["aside"]) == (
                    True,
                    len(expected),
                    len(bad),
                )
                assert run.stop() == 0
                assert "Traceback" not in run.output
        desk.log.close()
