"""Records as a consumer by HTTP sees them."""

from __future__ import annotations

import orjson
import pytest

from headwater.client.records import Record
from headwater.edges.rest import formats
from headwater.edges.rest.records_out import accepts, shown


def seen(key: bytes | None, value: bytes | None, format: str) -> dict[str, object]:
    found = orjson.loads(orjson.dumps(shown(Record("t", 0, 7, 1, key, value), format)))
    return {name: each for name, each in found.items() if name.startswith(("key", "value"))}


@pytest.mark.parametrize(
    ("format", "key", "value", "expected"),
    [
        ("binary", b"k", b"v", {"key": "aw==", "value": "dg=="}),
        ("binary", None, None, {"key": None, "value": None}),
        ("json", b"17", b'{"a": 1.50}', {"key": 17, "value": {"a": 1.5}}),
        ("json", b"order-17", b"null", {"key": "order-17", "value": None}),
        ("json", None, b"\xff", {"key": None, "value": None, "value_base64": "/w=="}),
        ("json", b"k", b"plain", {"key": "k", "value": None, "value_base64": "cGxhaW4="}),
        ("string", b"k", b"plain", {"key": "k", "value": "plain"}),
        ("string", b"\xff", b"", {"key": None, "key_base64": "/w==", "value": ""}),
    ],
)
def test_key_and_value_in_each_format(
    format: str, key: bytes | None, value: bytes | None, expected: dict[str, object]
):
    assert seen(key, value, format) == expected


def test_another_format_than_the_instance_has_is_not_acceptable():
    assert accepts("application/vnd.kafka.json.v2+json, */*;q=0.1", "json")
    assert accepts("", "binary")
    assert not accepts("application/vnd.kafka.json.v2+json", "binary")
    assert not accepts("text/event-stream", "json")


def test_headers_count_among_the_records_of_a_request(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(formats, "RECORDS_MAX", 10)
    one = b'{"headers":[{"name":"a"},{"name":"b"}]}'
    found = list(formats.read(one * 100, 1))
    assert [isinstance(each, formats.Bad) for each in found] == [False] * 3 + [True]
    assert "10 records and headers" in found[-1].reason  # type: ignore[union-attr]
