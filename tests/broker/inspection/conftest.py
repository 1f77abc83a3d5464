"""One healthy folder for all tests of inspections; each gets a copy of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.broker.inspection.world import World, make


@pytest.fixture(scope="session")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make(tmp_path_factory.mktemp("healthy") / "data")


@pytest.fixture
def world(healthy: World, tmp_path: Path) -> World:
    return healthy.copy(tmp_path / "data")
