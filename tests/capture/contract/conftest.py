"""Every server of the table, one after the other, with a database of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from headwater import testing
from headwater.broker.broker import Broker
from tests.capture.contract.servers import SERVERS, Entry
from tests.capture.contract.subject import Subject

_PARAMETERS = [
    pytest.param(entry, id=entry.name, marks=() if entry.quick else pytest.mark.soak)
    for entry in SERVERS
]


@pytest.fixture(scope="session", params=_PARAMETERS)
def server(request: pytest.FixtureRequest) -> Iterator[tuple[Entry, Any]]:
    entry: Entry = request.param
    with entry.running() as running:
        yield entry, running


@pytest.fixture
def shop(server: tuple[Entry, Any], request: pytest.FixtureRequest) -> Iterator[Subject]:
    entry, running = server
    for mark in request.node.iter_markers("needs"):
        for ability in mark.args:
            if ability not in entry.subject.can:
                pytest.skip(f"not of this kind of database: {ability}")
    made = entry.subject(running)
    yield made
    made.close()


@pytest.fixture(scope="session")
def log() -> Iterator[Broker]:
    with testing.broker(settings={"num.partitions": "2"}) as running:
        yield running
