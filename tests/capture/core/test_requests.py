"""What lies in the topic of requests, whoever has left it."""

from __future__ import annotations

import pytest

from headwater.capture.requests import _entries


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b"5", b'{"snapshot": 5}', b'{"snapshot": ["t"], "where": "\\ud800"}', b"\xff"],
)
def test_a_record_that_is_no_request_asks_nothing(content: bytes) -> None:
    assert _entries(content) == []


def test_a_request_names_tables_and_perhaps_a_condition() -> None:
    assert _entries(b'{"snapshot": ["a", "b"]}') == ["a", "b"]
    assert _entries(b'{"snapshot": ["a"], "where": "n > 1"}') == [{"table": "a", "where": "n > 1"}]
