"""confluent-kafka sends offsets to its transaction after the broker was killed and came back.

With the setting that docs/transactions.md names. Without it librdkafka 2.16 waits for ever, whichever
broker it is; `make soak` looks whether that is still so.
"""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from .clients import create_topic
from .process import BrokerProcess

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
ROOT = Path(__file__).parents[2]
KILLS = 3
PATIENCE_S = 60.0


class Sender:
    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._into: IO[bytes] = process.stdin
        self._out: IO[bytes] = process.stdout

    def commit(self) -> None:
        """One transaction; fails if it takes too long."""
        self._into.write(b"\n")
        self._into.flush()
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._out, selectors.EVENT_READ)
            assert waiting.select(PATIENCE_S), "send_offsets_to_transaction does not come back"
        assert self._out.readline() == b"committed\n"


@contextmanager
def sender(bootstrap: str, strategy: str) -> Iterator[Sender]:
    words = [sys.executable, "-m", "tests.crash.offset_sender", bootstrap, "out", "group", strategy]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    ) as process:
        try:
            yield Sender(process)
        finally:
            process.kill()


@pytest.mark.parametrize(
    "strategy",
    [
        "none",
        pytest.param(
            "rebootstrap",
            marks=[
                pytest.mark.skipif(not SOAK, reason="librdkafka's own; with HEADWATER_SOAK=1"),
                pytest.mark.xfail(reason="librdkafka issue 5511, with Apache Kafka as well"),
            ],
        ),
    ],
)
def test_offsets_are_sent_after_the_broker_was_killed(broker: BrokerProcess, strategy: str) -> None:
    create_topic(broker.bootstrap, "out")
    with sender(broker.bootstrap, strategy) as one:
        one.commit()
        for _ in range(KILLS):
            broker.kill()
            broker.start()
            one.commit()
