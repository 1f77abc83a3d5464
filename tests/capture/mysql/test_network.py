"""The network between capture and MariaDB: cut, and swallowing everything; it goes on by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from headwater import testing
from headwater.broker.broker import Broker
from headwater.capture.config import CaptureConfig
from headwater.capture.runner import Runner
from tests.capture.core.proxy import Proxy
from tests.capture.core.reading import read
from tests.capture.mysql.captured import Setting

DEADLINE_S = 100.0


@pytest.fixture
def wire(setting: Setting) -> Iterator[Proxy]:
    made = Proxy(setting.server.port)
    yield made
    made.close()


@pytest.fixture(scope="module")
def log() -> Iterator[Broker]:
    with testing.broker(settings={"num.partitions": "2"}) as running:
        yield running


def eventually(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"within {DEADLINE_S:.0f} s: {what}"
        time.sleep(0.02)


@pytest.mark.timeout(900)
def test_a_network_that_is_cut_or_swallows_everything_is_waited_for(
    setting: Setting, wire: Proxy, log: Broker
) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    url = f"mariadb://root@127.0.0.1:{wire.port}/{setting.name}"
    options = {"silence_s": 1}
    config = CaptureConfig(setting.name, url, ("t",), bootstrap=log.bootstrap, options=options)
    runner = Runner(config)
    thread = threading.Thread(target=runner.run)
    thread.start()

    def ids() -> list[int]:
        found = read(log.bootstrap, f"{setting.name}.t")
        return sorted(record.key["id"] for record in found)

    try:
        eventually("it streams", lambda: runner.status.phase == "streaming")
        setting.execute("INSERT INTO t VALUES (1)")
        eventually("the first row", lambda: ids() == [1])
        wire.cut()
        setting.execute("INSERT INTO t VALUES (2)")
        eventually("what came while it was cut off", lambda: ids() == [1, 2])
        before = runner.status.restarts
        wire.swallow()
        setting.execute("INSERT INTO t VALUES (3)")
        eventually("silence is noticed", lambda: runner.status.restarts > before)
        wire.mend()
        setting.execute("INSERT INTO t VALUES (4)")
        eventually("the rest", lambda: ids() == [1, 2, 3, 4])
    finally:
        runner.stop()
        thread.join(60)
    assert ids() == [1, 2, 3, 4]
