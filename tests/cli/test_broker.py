"""`headwater broker` as a process: its first line, its settings, its end, its refusals."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

READY = re.compile(r"headwater: ready at (\S+), data in (\S+)\n")


class Running:
    """A broker that has said that it is ready."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        line = process.stdout.readline()
        ready = READY.fullmatch(line)
        assert ready is not None, line
        self.bootstrap, self.data = ready.groups()
        self._process = process

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Send a signal; the exit code, and what else was printed."""
        self._process.send_signal(number)
        out, err = self._process.communicate(timeout=60)
        return self._process.returncode, out + err


@contextmanager
def running(*words: str, folder: Path) -> Iterator[Running]:
    process = subprocess.Popen(
        [sys.executable, "-m", "headwater", "broker", "--listen", "127.0.0.1:0", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield Running(process)
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_where_it_listens_and_stops_in_order_when_told(tmp_path: Path, number):
    with running(folder=tmp_path) as broker:
        assert re.fullmatch(r"127\.0\.0\.1:[1-9]\d*", broker.bootstrap)
        assert tmp_path / broker.data == tmp_path / "data" / "log"
        assert (tmp_path / "data" / "log").is_dir()
        assert broker.end(number) == (0, "headwater: stopped, everything is on disk\n")


def test_settings_come_from_the_file_and_from_set_which_wins(headwater, tmp_path: Path):
    file = tmp_path / "server.properties"
    file.write_text("# ours\nnum.partitions = 5\nlog.retention.ms = 1000\nlog.dirs = elsewhere\n")
    with running("--config", str(file), "--set", "num.partitions=3", folder=tmp_path) as broker:
        assert tmp_path / broker.data == tmp_path / "elsewhere"
        headwater("topics", "create", "made", "--bootstrap", broker.bootstrap)
        made = headwater("topics", "describe", "made", "--json", "--bootstrap", broker.bootstrap)
        assert len(made.json()["partitions"]) == 3


def test_clients_are_told_the_advertised_address(headwater, tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    words = ["--listen", f"127.0.0.1:{port}", "--advertise", f"localhost:{port}"]
    with running(*words, folder=tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}"})
        hosts = {(b.host, b.port) for b in admin.list_topics(timeout=60).brokers.values()}
        assert hosts == {("localhost", port)}
        assert broker.end(signal.SIGTERM)[0] == 0


def test_an_unknown_setting_is_refused_with_the_nearest(headwater):
    ran = headwater("broker", "--set", "num.partitons=2", "--set", "log.segment.bytes=big")
    assert (ran.code, ran.out) == (1, "")
    first, second = ran.err.splitlines()
    assert first == "headwater: Unknown setting num.partitons: did you mean num.partitions?"
    assert "log.segment.bytes" in second
    assert "`headwater settings` lists" in second


def test_an_address_in_use_a_folder_in_use_and_no_folder_are_one_sentence_each(
    headwater, tmp_path: Path
):
    (tmp_path / "file").write_text("")
    with running("--data", "mine", folder=tmp_path) as broker:
        for words, sentence in (
            (["--listen", broker.bootstrap], "cannot listen on"),
            (["--data", "mine"], "in use by another broker"),
            (["--data", "file"], "file cannot be used"),
        ):
            ran = headwater("broker", "--listen", "127.0.0.1:0", *words)
            assert (ran.code, ran.out) == (1, "")
            assert ran.err.count("\n") == 1
            assert sentence in ran.err
