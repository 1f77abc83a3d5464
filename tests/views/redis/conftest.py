"""One Redis for all tests of this folder, empty for each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.testing.targets import Make
from headwater.views.targets.registry import target_for
from tests.views.redis.server import RedisServer, redis_server


@pytest.fixture(scope="session")
def running() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def server(running: RedisServer) -> RedisServer:
    with running.client() as client:
        client.flushall()
    return running


@pytest.fixture
def make(server: RedisServer) -> Make:
    return lambda given: target_for(server.url, given)
