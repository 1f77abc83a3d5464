"""The network between capture and PostgreSQL: cut, and swallowing everything; it goes on by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.capture.config import CaptureConfig
from tests.capture.core.proxy import Proxy
from tests.capture.postgres.running import Setting, eventually


@pytest.fixture
def wire(setting: Setting) -> Iterator[Proxy]:
    made = Proxy(setting.server.port)
    yield made
    made.close()


@pytest.mark.timeout(900)
def test_a_network_that_is_cut_or_swallows_everything_is_waited_for(
    setting: Setting, wire: Proxy
) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY)")
    url = setting.url.replace(f":{setting.server.port}", f":{wire.port}")
    assert url != setting.url
    options = {"silence_s": 1}
    config = CaptureConfig(setting.name, url, ("t",), bootstrap=setting.bootstrap, options=options)
    with setting.running(config) as runner:
        setting.execute("INSERT INTO t VALUES (1)")
        setting.wait_for("t", 1)
        wire.cut()
        setting.execute("INSERT INTO t VALUES (2)")
        setting.wait_for("t", 2)
        before = runner.status.restarts
        wire.swallow()
        setting.execute("INSERT INTO t VALUES (3)")
        eventually("silence is noticed", lambda: runner.status.restarts > before)
        wire.mend()
        setting.execute("INSERT INTO t VALUES (4)")
        setting.wait_for("t", 4)
        eventually("it streams again", lambda: runner.status.phase == "streaming")
        setting.caught_up(runner)
    assert sorted(record.key["id"] for record in setting.read("t")) == [1, 2, 3, 4]
