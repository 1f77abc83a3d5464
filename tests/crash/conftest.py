"""A broker process per test, ended whatever happens, and a summary of what was lost."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from .process import BrokerProcess

_said: list[str] = []


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path)
    process.start()
    yield process
    process.end()


@pytest.fixture
def dice() -> Random:
    """Moments and numbers by chance; HEADWATER_SEED=n chooses the same again.

    In a quick run always the same, as far as a process that is killed can do the same twice.
    """
    usual = int.from_bytes(os.urandom(3), "big") if os.environ.get("HEADWATER_SOAK") == "1" else 7
    seed = int(os.environ.get("HEADWATER_SEED") or usual)
    print(f"HEADWATER_SEED={seed}")
    return Random(seed)


@pytest.fixture
def say() -> Iterator[list[str]]:
    """Sentences for the end of the run."""
    return _said


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for sentence in _said:
        terminalreporter.write_line(sentence)
