"""Fixtures for the tests of the running broker; the folders below have their own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.serving import Serving, serving
from tests.compat.wire import Wire


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One broker for the tests of a module that need nothing special of it."""
    with serving(tmp_path_factory.mktemp("shared") / "data") as running:
        yield running


@pytest.fixture
def wire(shared: Serving) -> Iterator[Wire]:
    with shared.wire() as connection:
        yield connection


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder for a broker of the test's own; not there yet."""
    return tmp_path / "data"


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses."""
    stem = request.node.name.removeprefix("test_").partition("[")[0].replace("_", "-")
    return f"{stem[:40]}-{uuid.uuid4().hex[:6]}"
