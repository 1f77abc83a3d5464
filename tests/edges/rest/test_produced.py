"""Bodies of POST …/records: what is stored, byte for byte, and what is said of the rest."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.edges.rest.formats import Bad, Produced, read

NOW_MS = 1_700_000_000_000


def one(body: str | bytes) -> Produced | Bad:
    (found,) = read(body.encode() if isinstance(body, str) else body, NOW_MS)
    return found


def good(body: str) -> Produced:
    found = one(body)
    assert isinstance(found, Produced), found
    return found


def test_json_is_kept_byte_for_byte():
    found = good('{"value": {"type": "JSON", "data": {"total": 12.50, "n":  1e400}}}')
    assert found.draft.value == b'{"total": 12.50, "n":  1e400}'


def test_a_record_with_everything():
    body = """{"partition_id": 2, "timestamp": "2026-11-17T06:00:00.250Z",
        "headers": [{"name": "trace", "value": "YTE="}, {"name": "none"}],
        "key": {"type": "STRING", "data": "\\u00e9"}, "value": {"type": "BINARY", "data": "AAH/"}}"""
    draft = good(body).draft
    assert draft.key == "é".encode()
    assert draft.value == b"\x00\x01\xff"
    assert list(draft.headers) == [("trace", b"a1"), ("none", None)]
    assert (draft.partition, draft.timestamp_ms) == (2, 1_794_895_200_250)


@pytest.mark.parametrize(
    "body",
    ['{"key": {"type": "STRING", "data": "k"}}', '{"value": null}', '{"value": {"data": null}}'],
)
def test_a_value_that_is_missing_or_null_is_a_tombstone(body: str):
    found = good(body)
    assert found.draft.value is None
    assert found.draft.timestamp_ms == NOW_MS


@pytest.mark.parametrize("between", ["", " ", "\n", "\r\n\r\n"])
def test_objects_in_a_row_are_records_in_their_order(between: str):
    records = [json.dumps({"value": {"type": "JSON", "data": n}}) for n in range(5)]
    found = list(read(between.join(records).encode(), NOW_MS))
    assert [each.draft.value for each in found if isinstance(each, Produced)] == [
        str(n).encode() for n in range(5)
    ]


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ("[1]", 42206, "does not fit"),
        ('{"value": {"type": "AVRO", "data": 1}}', 42206, "schema registry"),
        ('{"value": {"type": "XML", "data": 1}}', 42206, "BINARY, JSON or STRING"),
        ('{"value": {"data": 1}}', 42206, "BINARY, JSON or STRING"),
        ('{"value": {"type": "STRING", "data": 1}}', 42206, "text in quotes"),
        ('{"value": {"type": "BINARY", "data": "%"}}', 42206, "no base64"),
        ('{"partition_id": -1}', 42206, "0 or more"),
        ('{"timestamp": "yesterday"}', 42206, "no time"),
        ('{"timestamp": -5}', 42206, "1970"),
        ('{"headers": [{"name": ""}]}', 42206, "no name"),
        ('{"value": ', 400, "no JSON"),
        ("[" * 100_000, 400, "no JSON"),
        (b"\xff", 400, "no UTF-8"),
    ],
)
def test_what_is_no_record_is_told(body: str | bytes, code: int, words: str):
    found = one(body)
    assert isinstance(found, Bad), found
    assert found.code == code
    assert words in found.reason


def test_behind_what_is_no_json_nothing_is_read():
    found = list(read(b'{"value": null} {"value" {"value": null}', NOW_MS))
    assert [type(each) for each in found] == [Produced, Bad]


@given(st.binary(max_size=200) | st.text(alphabet='{}[]":, \\typedaJSON0.-', max_size=80))
def test_any_bytes_are_records_or_told(body: bytes | str):
    for each in read(body.encode() if isinstance(body, str) else body, NOW_MS):
        assert isinstance(each, Produced | Bad)
