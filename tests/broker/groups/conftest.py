"""Fixtures for the tests of groups: a room for one group, a desk for a coordinator."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest

from .desk import Desk, MemoryStore
from .room import Room


@pytest.fixture
def room() -> Room:
    return Room()


@pytest.fixture
async def make_desk() -> AsyncIterator[Callable[..., Desk]]:
    desks: list[Desk] = []

    def make(store: MemoryStore | None = None, **settings: int) -> Desk:
        desks.append(Desk(store, **settings))
        return desks[-1]

    yield make
    for desk in desks:
        desk.store.open.set()
        await desk.groups.stop()


@pytest.fixture
async def desk(make_desk: Callable[..., Desk]) -> Desk:
    return make_desk()
