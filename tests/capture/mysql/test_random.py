"""A random workload with kills of capture, broker and database; then the log must equal the tables.

Each seed is one run: HEADWATER_SOAK=1 tries more of them.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater import testing
from headwater.capture.change import in_snapshot
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Interrupted
from headwater.capture.positions import read_positions
from headwater.capture.requests import ask
from headwater.project.ports import free_port
from tests.capture.core.reading import Read, fold, read
from tests.capture.mysql.captured import Setting
from tests.capture.mysql.workload import Workload

DEADLINE_S = 240.0  # on a machine that does other things as well, pauses between tries add up
SOAK = os.environ.get("HEADWATER_SOAK") == "1"


def eventually(what: str, condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"within {DEADLINE_S:.0f} s: {what}"
        time.sleep(0.05)


class Stage:
    """The capture's process and the broker, each of which can be killed and started again."""

    def __init__(self, setting: Setting, folder: Path) -> None:
        self.setting = setting
        self._folder = folder
        self.bootstrap = f"127.0.0.1:{free_port()}"
        self._broker = contextlib.ExitStack()
        self._capture: subprocess.Popen[bytes] | None = None
        self.start_broker()

    def start_broker(self) -> None:
        broker = testing.broker(
            self._folder / "log", {"num.partitions": "3"}, listen=self.bootstrap
        )
        self._broker.enter_context(broker)

    def restart_broker(self) -> None:
        self._broker.close()
        self.start_broker()

    def start_capture(self) -> None:
        setting = self.setting
        url = f"mariadb://root@127.0.0.1:{setting.server.port}/{setting.name}"
        options = json.dumps({"chunk_rows": 40})
        with (self._folder / "capture.out").open("ab") as output:
            self._capture = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.capture.mysql.process"),
                    *(setting.name, url, self.bootstrap, options),
                ],
                stdout=output,
                stderr=output,
            )

    def kill_capture(self) -> None:
        if self._capture is not None:
            self._capture.kill()
            self._capture.wait(30)

    def position(self) -> dict[str, Any] | None:
        """The stored position; a capture that ended by itself is the test's failure."""
        assert self._capture is not None and self._capture.poll() is None, self.said()
        try:
            found = read_positions(self.bootstrap, [self.setting.name]).get(self.setting.name)
        except Interrupted:
            return None  # the topic is just being made
        return None if found is None else found["position"]

    def said(self) -> str:
        return (self._folder / "capture.out").read_text(errors="replace")[-3000:]

    def streaming(self) -> bool:
        position = self.position()
        return position is not None and not in_snapshot(position)

    def caught_up(self) -> bool:
        end = str(self.setting.execute("SELECT @@gtid_binlog_pos")[0][0])
        position = self.position()
        return position is not None and position["gtid"] == end and "within" not in position

    def close(self) -> None:
        self.kill_capture()
        self._broker.close()


@pytest.fixture
def stage(own_setting: Setting, tmp_path: Path) -> Iterator[Stage]:
    made = Stage(own_setting, tmp_path)
    yield made
    made.close()


def _events(records: list[Read], after: int) -> dict[int, list[tuple[str, int]]]:
    """Per key: what happened to it, by the stamps of the workload."""
    found: dict[int, list[tuple[str, int]]] = {}
    for record in records:
        if record.value is None or record.value["op"] == "r":
            continue
        value = record.value
        row = value["before"] if value["op"] == "d" else value["after"]
        place = found.setdefault(record.key["id"], [])
        if value["transaction"] is not None and int(value["source"]["gtid"].split("-")[2]) > after:
            place.append((value["op"], row["stamp"]))
    return {key: events for key, events in found.items() if events}


def _plain(row: dict[str, Any], columns: set[str]) -> dict[str, Any]:
    """A row as the table has it now: columns added since are NULL there, dropped ones gone."""
    return {name: row.get(name) for name in columns}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(20) if SOAK else range(1))
def test_the_log_equals_the_tables_whatever_was_killed(stage: Stage, seed: int) -> None:
    setting = stage.setting
    choose = random.Random(seed)
    workload = Workload(setting.server, setting.name, seed)
    for _ in range(40):
        workload.step()
    stage.start_capture()
    for _ in range(20):  # while the snapshot is read
        workload.step()
    stage.kill_capture()
    workload.step()
    stage.start_capture()
    eventually("the snapshot is complete", stage.streaming)

    begun = int(str(setting.execute("SELECT @@gtid_binlog_pos")[0][0]).split("-")[2])
    workload.events = {"t": [], "u": []}
    acts = [stage.kill_capture, _kill_server, stage.restart_broker, stage.kill_capture]
    choose.shuffle(acts)
    for act in acts:
        for _ in range(choose.randint(15, 40)):
            workload.step()
        if choose.random() < 0.5:
            ask(CaptureConfig(setting.name, "", bootstrap=stage.bootstrap), ["t", "u"])
        if act is _kill_server:
            workload.leave_open()
            setting.server.kill()
            setting.server.start()
        else:
            act()
        if act == stage.kill_capture:
            for _ in range(choose.randint(0, 10)):
                workload.step()
            stage.start_capture()
    for _ in range(10):
        workload.step()
    eventually("the capture has caught up", stage.caught_up)
    stage.kill_capture()

    for table in ("t", "u"):
        records = read(stage.bootstrap, f"{setting.name}.{table}")
        assert len(workload.events[table]) > 20, "the workload does something"
        wanted: dict[int, list[tuple[str, int]]] = {}
        for op, key, stamp in workload.events[table]:
            wanted.setdefault(key, []).append((op, stamp))
        assert _events(records, begun) == wanted, f"seed {seed}, table {table}"
        columns = {"id", "stamp", *workload.columns[table]}
        theirs = setting.as_snapshot(table)
        ours = {key: _plain(row, columns) for key, row in fold(records).items()}
        assert ours == theirs, f"seed {seed}, table {table}"


def _kill_server() -> None:
    """Done by the test itself, which knows the server; here only for its place in the order."""
