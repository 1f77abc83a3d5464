"""A program that this machine lacks: a loud skip, or a failure where servers are required."""

from __future__ import annotations

import os

import pytest

# Shown once more at the end of the run, by conftest: a skip among hundreds of dots is not loud.
sentences: set[str] = set()


def skip_or_fail(sentence: str) -> None:
    """HEADWATER_REQUIRE_SERVERS=1 (as in CI) makes what is missing a failure."""
    if os.environ.get("HEADWATER_REQUIRE_SERVERS") == "1":
        pytest.fail(sentence)
    sentences.add(sentence)
    pytest.skip(sentence)
