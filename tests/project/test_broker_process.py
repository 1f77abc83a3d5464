"""The broker as a child process: started, killed, stopped, and understood when it cannot start."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.project.broker_process import BrokerDied, BrokerProcess
from tests.compat.waiting import until


def test_it_answers_when_start_returns_and_comes_back_at_the_same_address(tmp_path: Path):
    with BrokerProcess(tmp_path / "log") as broker:
        address = broker.bootstrap
        assert broker.start() > 0
        assert broker.resident_bytes() is None or broker.resident_bytes() > 2**20
        broker.kill()
        assert broker.resident_bytes() is None
        broker.start()
        assert broker.bootstrap == address
        broker.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_it_ends_with_a_parent_that_is_killed_and_lets_go_of_its_folder(tmp_path: Path):
    words = (
        "import sys; from pathlib import Path; from headwater.project.broker_process import *\n"
        "with BrokerProcess(Path(sys.argv[1])) as broker:\n"
        "    broker.start(); print('started', flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", words, str(tmp_path / "log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"started\n"
        parent.kill()
    with BrokerProcess(tmp_path / "log") as broker:
        until(lambda: _starts(broker), "the folder to be free")
        broker.stop()


def _starts(broker: BrokerProcess) -> bool:
    try:
        broker.start()
    except BrokerDied:
        broker.kill()
        return False
    return True


def test_a_broker_that_cannot_start_says_why(tmp_path: Path):
    (tmp_path / "log").write_text("a file where a folder should be")
    with BrokerProcess(tmp_path / "log") as broker, pytest.raises(BrokerDied) as refusal:
        broker.start()
    assert re.search(r"the broker ended with code 1; its last words: .*log", str(refusal.value))
