"""A registry beside the folder's broker, for everybody in this process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.schemas.conftest import serving


@pytest.fixture(scope="session")
def registry_url(bootstrap: str) -> Iterator[str]:
    with serving(bootstrap) as url:
        yield url


@pytest.fixture
def registry(registry_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("HEADWATER_REGISTRY", registry_url)
    return registry_url
