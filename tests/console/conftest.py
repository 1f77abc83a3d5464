"""One browser and one broker for each file of tests.

Not for longer: while a browser is there, its library's event loop runs in this thread, and asynchronous
tests of other files in the same worker could not run theirs. So no test here is asynchronous.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from headwater.project.broker_process import BrokerProcess
from tests.console.running import chromium, look

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A visitor."""
    with look(browser, viewport={"width": 1440, "height": 900}) as found:
        yield found


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that may be killed and started again."""
    with BrokerProcess(tmp_path_factory.mktemp("log"), durability="os") as process:
        process.start()
        yield process
