"""One broker for a file of tests; every test has topics of its own."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from headwater import testing

QUICK_GROUPS = {"group.min.session.timeout.ms": "500"}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with testing.broker(settings=QUICK_GROUPS) as broker:
        yield broker.bootstrap


@pytest.fixture
def name() -> str:
    return f"accounts-{uuid.uuid4().hex[:8]}"
