"""The examples run as they are, and print what their pages say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.project.broker_process import BrokerProcess

FOLDER = Path(__file__).parents[2] / "examples" / "queues"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "log") as broker:
        broker.start()
        yield broker.bootstrap
        broker.stop()


def ran(name: str, bootstrap: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", str(FOLDER / f"{name}.py")],
        env={**os.environ, "HEADWATER_BOOTSTRAP": bootstrap, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_load_balancing_divides_the_jobs(bootstrap: str) -> None:
    said = ran("load_balancing", bootstrap)
    assert said.endswith("60 jobs done, each once\n")
    assert len(re.findall(r"^worker \d did \d+ jobs$", said, re.MULTILINE)) >= 2


def test_fan_out_gives_everything_to_each_group(bootstrap: str) -> None:
    orders = ", ".join(f"order {number}" for number in range(5))
    assert ran("fan_out", bootstrap) == f"billing got {orders}\nshipping got {orders}\n"


def test_both_at_once(bootstrap: str) -> None:
    said = ran("both", bootstrap)
    assert [line.split(" = ")[1] for line in said.splitlines()] == ["40 orders"] * 2


def test_redelivery_reorders_and_one_consumer_does_not(bootstrap: str) -> None:
    assert ran("ordering", bootstrap).splitlines() == [
        "share group:   ordered → packed → sent → paid",
        "one consumer:  ordered → paid → packed → sent",
    ]


def test_dead_letters_are_listed_and_replayed(bootstrap: str) -> None:
    said = ran("dead_letters", bootstrap)
    assert "Offset rejected by client." in said
    assert "Delivery count limit reached." in said
    assert "Replayed 2 dead letters" in said


def test_every_example_is_run_here() -> None:
    here = Path(__file__).read_text()
    names = {path.stem for path in FOLDER.glob("*.py")} - {"setting_up"}
    assert [name for name in sorted(names) if f'ran("{name}"' not in here] == []
