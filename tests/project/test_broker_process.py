"""The broker as a child process: started, killed, stopped, and understood when it cannot start."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headwater.project.broker_process import BrokerDied, BrokerProcess


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


def test_a_broker_that_cannot_start_says_why(tmp_path: Path):
    (tmp_path / "log").write_text("a file where a folder should be")
    with BrokerProcess(tmp_path / "log") as broker, pytest.raises(BrokerDied) as refusal:
        broker.start()
    assert re.search(r"the broker ended with code 1; its last words: .*log", str(refusal.value))
