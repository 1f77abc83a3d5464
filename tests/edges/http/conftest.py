"""Edges on the folder's broker, started once for all tests that need no settings of their own."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from headwater.client.log import Log
from tests.edges.running import Running, edges


@pytest.fixture(scope="module")
def running(log: Log) -> Iterator[Running]:
    with edges(log.bootstrap) as running:
        yield running


@pytest.fixture(scope="module")
def http(running: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.url, timeout=60) as client:
        yield client
