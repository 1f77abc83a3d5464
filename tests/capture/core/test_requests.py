"""What lies in the topic of requests, whoever has left it."""

from __future__ import annotations

import pytest

from headwater.capture import requests
from headwater.capture.config import CaptureConfig
from headwater.capture.requests import _entries
from headwater.client.namespace import is_own


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b"5", b'{"snapshot": 5}', b'{"snapshot": ["t"], "where": "\\ud800"}', b"\xff"],
)
def test_a_record_that_is_no_request_asks_nothing(content: bytes) -> None:
    assert _entries(content) == []


def test_a_request_names_tables_and_perhaps_a_condition() -> None:
    assert _entries(b'{"snapshot": ["a", "b"]}') == ["a", "b"]
    assert _entries(b'{"snapshot": ["a"], "where": "n > 1"}') == [{"table": "a", "where": "n > 1"}]


def test_requests_lie_where_no_token_of_the_edges_and_no_page_may_write():
    """Whoever had a token for `shop.*` had a condition of his evaluated with the rights of the capture."""
    assert is_own(requests.topic(CaptureConfig("shop", "mysql://db")))
