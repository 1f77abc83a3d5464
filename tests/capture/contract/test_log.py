"""The contract with a log at the end: rows above its limits, and kill -9 of either side and of both."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.broker import Broker
from headwater.capture.runner import Runner
from tests.capture.contract.subject import Subject
from tests.capture.core.reading import Read, read
from tests.capture.postgres.running import eventually

SEEDS = (1, 2)


def folded(shop: Subject, records: list[Read]) -> list[dict[str, Any]]:
    rows: dict[str, Any] = {}
    for record in records:
        key = json.dumps(record.key)
        if record.value is None or record.value["op"] == "d":
            rows.pop(key, None)
        elif (
            record.value["after"] is not None
        ):  # MongoDB: a document that is gone when it is looked up
            rows[key] = shop.row(record.value["after"])
    return sorted(rows.values(), key=lambda row: row["id"])


def test_a_row_above_the_logs_limit_gets_room_and_one_above_ours_is_set_aside(
    shop: Subject, log: Broker
) -> None:
    shop.create("t")
    shop.insert("t", 1, 1, "x" * 1_500_000)
    config = shop.config(bootstrap=log.bootstrap, record_bytes_max=2_000_000)
    said: list[str] = []
    runner = Runner(config, said.append)
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        eventually("it streams", lambda: runner.status.phase == "streaming")
        shop.insert("t", 2, 2, "y" * 2_500_000)
        shop.insert("t", 3, 3, "z" * 1_500_000)
        eventually(
            "the rows that fit",
            lambda: [row["id"] for row in folded(shop, _read(log, shop, "t"))] == [1, 3],
        )
    finally:
        runner.stop()
        thread.join(60)
    (letter,) = _read(log, shop, "dead-letters")
    assert dict(letter.headers)
    assert [sentence for sentence in said if "was set aside" in sentence]


def test_a_snapshot_asks_for_no_more_rows_a_second_than_it_may(shop: Subject, log: Broker) -> None:
    shop.create("t")
    shop.insert("t", 1, 2_000)
    runner = Runner(shop.config(bootstrap=log.bootstrap, snapshot_rows_per_second=2_000))
    begun = time.monotonic()
    runner.run(until_streaming=True)
    assert time.monotonic() - begun >= 1.0  # the least that it may take
    assert len(folded(shop, read(log.bootstrap, f"{shop.name}.t"))) == 2_000


def _read(log: Broker, shop: Subject, table: str) -> list[Read]:
    topic = f"{shop.name}.{table}"
    try:
        return read(log.bootstrap, topic)
    except (KeyError, AssertionError):
        return []


class Process:
    """The capture, to be killed."""

    def __init__(self, shop: Subject, log: Broker, folder: Path) -> None:
        words = [shop.name, shop.url(), log.bootstrap, "{}"]
        self._words = [sys.executable, "-m", "tests.capture.mysql.process", *words]
        self._output = folder / "capture.out"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self._words, stdout=output, stderr=output)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(60)
            self._process = None

    def check(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._output.read_text()[-3000:]
        return True


def _moves(log: Broker, shop: Subject, capture: Process) -> None:
    seen = len(_read(log, shop, "t"))
    shop.set("t", 2, seen)
    eventually("it moves", lambda: capture.check() and len(_read(log, shop, "t")) > seen)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_killed_each_change_is_in_the_log_once(
    shop: Subject, log: Broker, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    shop.create("t")
    shop.insert("t", 1, 3_000)
    capture = Process(shop, log, tmp_path)
    capture.start()
    fresh = 10_000
    strikes: list[Callable[[], None]] = [capture.kill, shop.kill]
    try:
        for step in range(12):
            fresh += 500
            shop.insert("t", fresh, fresh + chance.randrange(400))
            for _ in range(20):
                shop.set("t", chance.randrange(3, 3_000), chance.randrange(1_000_000))
            shop.delete("t", chance.randrange(3, 3_000))
            if step % 2:
                shop.insert("t", fresh + 450, fresh + 450)
                _moves(log, shop, capture)
            struck = chance.choice([strikes[:1], strikes[1:], strikes])
            for strike in struck:
                strike()
            if shop.kill in struck:
                shop.start()
            if capture.kill in struck:
                capture.start()
        shop.insert("t", 1_000_000, 1_000_000)
        eventually(
            "the last row",
            lambda: (
                capture.check() and "1000000" in str([r.key for r in _read(log, shop, "t")[-500:]])
            ),
        )
    finally:
        capture.kill()
    records = read(log.bootstrap, f"{shop.name}.t")
    assert folded(shop, records) == shop.select("t")
    created = [
        json.dumps(record.key) for record in records if record.value and record.value["op"] == "c"
    ]
    assert len(created) == len(set(created)), "a row that was made once is in the log once"
