"""Fixtures: a real issuer on loopback, and validators of its tokens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headwater.testing.issuer import Issuer, issuer


@pytest.fixture
def idp() -> Iterator[Issuer]:
    with issuer() as found:
        yield found
