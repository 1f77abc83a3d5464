"""A program that this machine lacks: a loud skip, or a failure where servers are required."""

from __future__ import annotations

import os

import pytest

from headwater.testing.kafka_jars import MissingServer, kafka_jars

CANNOT = "cannot run here"
"""In every such sentence; conftest shows them at the end: a skip among dots is not loud."""


def skip_or_fail(sentence: str) -> None:
    """HEADWATER_REQUIRE_SERVERS=1 (as in CI) makes what is missing a failure."""
    if os.environ.get("HEADWATER_REQUIRE_SERVERS") == "1":
        pytest.fail(sentence)
    assert CANNOT in sentence
    pytest.skip(sentence)


def require_kafka_tools() -> None:
    """Kafka's jars and a Java to run them."""
    try:
        kafka_jars()
    except MissingServer as missing:
        skip_or_fail(f"Kafka's tools {CANNOT}: {missing}")
