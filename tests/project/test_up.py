"""`headwater up` with real processes: whatever part is killed comes back, and a stop loses nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

import headwater.testing
from headwater.project import record
from headwater.project.hello import Answer, hello
from headwater.project.parts import Part
from headwater.project.ports import free_port
from headwater.project.processes.process import CALM_S, SupervisedPart
from headwater.project.record import PartLog
from headwater.project.supervisor import Supervisor
from tests.compat.waiting import until


class Up:
    """A project in a folder, and the supervisor that runs it."""

    def __init__(self, folder: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "headwater.toml").write_text(
            f'[log]\nlisten = "{self.address}"\n[capture.shop]\nfrom = "sqlite:shop.db"\n'
            'tables = ["orders"]\n'
        )
        with sqlite3.connect(folder / "shop.db") as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT)")
        db.close()

    def move_to(self, address: str) -> None:
        path = self.folder / "headwater.toml"
        path.write_text(path.read_text().replace(self.address, address))
        self.address = address

    def start(self) -> None:
        output = (self.folder / "output.txt").open("ab")
        with output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "headwater", "up"],
                cwd=self.folder,
                stdout=output,
                stderr=output,
            )

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headwater", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.command("status", "--json").stdout)
        return found

    def part(self, name: str) -> dict[str, Any]:
        status = self.status()  # of one that is not up, parts are as they were last seen
        parts = status["parts"] if status["up"] else []
        return next((part for part in parts if part["name"] == name), {"state": "none"})

    def insert(self, item: str) -> None:
        with sqlite3.connect(self.folder / "shop.db", timeout=60) as db:
            db.execute("INSERT INTO orders (item) VALUES (?)", (item,))
        db.close()

    def items(self) -> list[str]:
        """What the topic of the table has."""
        consumer = Consumer({"bootstrap.servers": self.address, "group.id": "look", "log_level": 0})
        try:
            topics = consumer.list_topics(timeout=30).topics
            if "shop.orders" not in topics:
                return []
            found = []
            for number in topics["shop.orders"].partitions:
                place = TopicPartition("shop.orders", number, 0)
                end = consumer.get_watermark_offsets(place, timeout=30)[1]
                consumer.assign([place])
                while consumer.position([place])[0].offset < end:
                    message = consumer.poll(1)
                    if message is not None and message.error() is None and message.value():
                        found.append(json.loads(message.value())["after"]["item"])
                        if message.offset() + 1 >= end:
                            break
            return found
        except KafkaException:  # the broker has just been killed, or has just come back: ask again
            return []
        finally:
            consumer.close()

    def end(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(60)


@contextmanager
def project(folder: Path) -> Iterator[Up]:
    up = Up(folder)
    try:
        yield up
    finally:
        if up.process is not None and up.process.poll() is None:
            up.process.kill()
            up.process.wait()


def test_each_part_comes_back_after_a_kill_and_a_stop_loses_nothing(tmp_path: Path) -> None:
    with project(tmp_path) as up:
        up.start()
        until(lambda: up.part("capture shop")["state"] == "running", "the capture to run")
        up.insert("kettle")
        until(lambda: up.items() == ["kettle"], "the row to be in the log")

        for number, name in enumerate(("broker", "capture shop"), 1):
            os.kill(up.part(name)["pid"], signal.SIGKILL)
            up.insert(f"lamp {number}")
            until(lambda name=name: up.part(name)["restarts"] == 1, f"{name} to be missed")
            until(lambda name=name: up.part(name)["state"] == "running", f"{name} to be back")
            until(lambda n=number: len(up.items()) == 1 + n, "what was written meanwhile")

        said = up.command("status").stdout
        assert "started again 1 times" in said
        assert up.end() == 0
        output = (tmp_path / "output.txt").read_text()
        stops = [line.split(" ", 1)[1] for line in output.splitlines() if line.endswith("stopped")]
        assert [line.split("  ")[0].removesuffix(" stopped") for line in stops][-1] == "broker"

        assert up.command("status").returncode == 1
        up.start()
        until(lambda: up.part("broker")["state"] == "running", "the broker to run again")
        until(lambda: up.items() == ["kettle", "lamp 1", "lamp 2"], "all of it to be there again")


def test_nobody_else_looks_into_what_a_project_keeps(tmp_path: Path) -> None:
    with project(tmp_path) as up:
        up.start()
        until(lambda: up.part("capture shop")["state"] == "running", "the capture to run")
        assert up.command("pause", "capture shop").returncode == 0
        until(lambda: up.part("capture shop")["state"] == "paused", "the pause")
        data = tmp_path / "data"
        found = [data, *data.rglob("*")]
        assert {"lock", "parts.json", "control.json"} <= {each.name for each in found}
        assert [each for each in found if each.stat().st_mode & 0o077] == []
        assert up.end() == 0


def test_a_part_that_has_run_for_long_comes_back_at_once_and_later_each_time_that_it_fails(
    tmp_path: Path,
) -> None:
    part = SupervisedPart(Part("part", ("--no-such-option",), 0), tmp_path, tmp_path)

    def ended() -> str:
        said: list[str] = []
        until(lambda: said.append(part.step() or "") or "ended" in said[-1], "it to end")
        return said[-1].partition("; ")[2]

    try:
        assert part.step() == "running"
        part._begun -= CALM_S
        assert ended() == "started again at once"
        assert part.step() == "running"
        assert ended() == "started again in 1 s"
        assert part.step() is None
    finally:
        part.close()


def test_a_second_one_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    with project(tmp_path) as up:
        up.start()
        until(lambda: up.part("broker")["state"] == "running", "the broker to run")
        second = up.command("up")
        assert second.returncode == 1
        assert "up already" in second.stderr


def test_a_strangers_broker_at_the_address_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    with (
        headwater.testing.broker(tmp_path / "stranger") as stranger,
        project(tmp_path) as up,
    ):
        up.move_to(stranger.bootstrap)
        refused = up.command("up")
        assert refused.returncode == 1
        assert f"{stranger.bootstrap} is taken by a broker" in refused.stderr
        assert "listen" in refused.stderr  # what to do next
        assert not (tmp_path / "data" / "log").exists()
        assert not (tmp_path / "data" / "up" / "broker.log").exists()
        admin = AdminClient({"bootstrap.servers": stranger.bootstrap, "log_level": 0})
        assert "shop.orders" not in admin.list_topics(timeout=30).topics


def test_an_address_that_anything_else_has_taken_is_refused_too(tmp_path: Path) -> None:
    with project(tmp_path) as up, socket.create_server(("127.0.0.1", 0)) as server:
        taken = f"127.0.0.1:{server.getsockname()[1]}"
        with (tmp_path / "headwater.toml").open("a") as file:
            file.write(f'[console]\nlisten = "{taken}"\n')
        refused = up.command("up")
        assert refused.returncode == 1
        assert f"{taken} is taken" in refused.stderr
        assert "[console]" in refused.stderr
        assert not (tmp_path / "data" / "log").exists()


def test_a_strangers_broker_never_counts_as_the_projects_own(tmp_path: Path) -> None:
    """It has come to the address after that was found free."""
    own = f"127.0.0.1:{free_port()}"
    with headwater.testing.broker(tmp_path / "stranger") as stranger:
        words = ("broker", "--data", "log", "--listen", own)
        keepers = [
            SupervisedPart(
                Part(f"at {at}", words, 0, answers_at=at, data="log"), tmp_path, tmp_path
            )
            for at in (stranger.bootstrap, own)
        ]
        wrong, right = keepers
        try:
            right.step()
            until(lambda: right.step() and right.ready, "its own broker to count")
            wrong.entry.state = "starting"
            assert not wrong.answers()
            assert right.answers()
        finally:
            right.tell_to_stop()
            assert right.wait_stopped(time.monotonic() + 60)
            right.close()


def test_queries_start_beside_the_log_and_wait_until_the_supervisor_has_seen_it(
    tmp_path: Path,
) -> None:
    """By the record and not by the address, at which another broker may be."""
    own = f"127.0.0.1:{free_port()}"
    words = ("broker", "--data", "log", "--listen", own)
    waits = ("tail", "nothing", "--bootstrap", own)
    parts = [
        Part("broker", words, 3, answers_at=own, data="not-this-one"),
        Part("capture", waits, 1),
        Part("pipelines", waits, 2, waits_for_log=True),
    ]
    supervisor = Supervisor(parts, tmp_path, own, lambda *_: None)
    folder = tmp_path / record.FOLDER
    running = threading.Thread(target=supervisor.run)
    running.start()
    try:
        until(lambda: hello(own, 1.0) is Answer.BROKER, "the broker to answer")
        until(lambda: _states(folder).get("pipelines") == "running", "the queries to be started")
        assert record.log_is_to_come(folder)
        assert _states(folder)["capture"] == "waiting"
        supervisor._supervised[0].part = replace(parts[0], data="log")
        until(lambda: not record.log_is_to_come(folder), "the supervisor to know its broker")
    finally:
        supervisor.stop()
        running.join()


def _states(folder: Path) -> dict[str, str]:
    return {entry.name: entry.state for entry in record.read(folder)[1]}


def test_what_a_part_prints_is_bounded_while_it_runs(tmp_path: Path) -> None:
    log = PartLog(tmp_path / "part.log", bytes_max=10_000)
    words = "import sys\nfor n in sys.stdin: print(n.strip() * 20, flush=True)"
    with (
        log.open() as output,
        subprocess.Popen(
            [sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=output
        ) as part,
    ):
        assert part.stdin is not None
        shown: list[str] = []
        for number in range(200):
            part.stdin.write(b"%09d\n" % number)
            part.stdin.flush()
            until(lambda n=number: shown.extend(log.lines()) or len(shown) > n, "its line")
            log.lines()  # nothing is left to be shown: the moment in which a full file is cut
        part.stdin.close()
    log.close()
    assert shown == [f"{number:09d}" * 20 for number in range(200)]
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["part.log", "part.log.1"]
    assert sum(file.stat().st_size for file in files) < 25_000
    kept = "".join(file.read_text() for file in reversed(files)).split()
    assert kept == shown[-len(kept) :]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_parts_do_not_outlive_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    with project(tmp_path) as up:
        up.start()
        until(lambda: up.part("capture shop")["state"] == "running", "the capture to run")
        pids = [part["pid"] for part in up.status()["parts"]]
        assert up.process is not None
        up.process.kill()
        up.process.wait()
        until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "all to be gone")
        assert not up.status()["up"]
        up.start()
        until(lambda: up.part("broker")["state"] == "running", "the broker to run again")


def test_the_doctor_tells_what_is_missing_and_what_mends_it(tmp_path: Path) -> None:
    with project(tmp_path) as up:
        good = up.command("doctor", "--json")
        findings = {each["name"]: each for each in json.loads(good.stdout)}
        assert good.returncode == 0, good.stdout
        assert findings["log"]["sentence"] == f"{up.address} is free"

        (tmp_path / "shop.db").unlink()
        host, port = up.address.split(":")
        with socket.create_server((host, int(port))):
            bad = up.command("doctor", "--json")
        failed = {each["name"]: each for each in json.loads(bad.stdout) if not each["ok"]}
        assert bad.returncode == 1
        assert "is taken by" in failed["log"]["sentence"]
        assert any(name.startswith("capture shop") for name in failed)
        assert all(each["remedy"] for each in failed.values())
