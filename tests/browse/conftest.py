"""The broker and the log of the client's tests; each test has its own topics."""

from __future__ import annotations

from tests.client.conftest import log, make_topic, put, topic, until

__all__ = ["log", "make_topic", "put", "topic", "until"]
