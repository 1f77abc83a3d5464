"""Lines of JSON: what is good is taken as it is, what is not is named by its line."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.edges import ndjson
from headwater.edges.errors import TooLarge


def numbers_of_bad(body: bytes) -> list[int]:
    return [bad.line for bad in ndjson.read(body).bad]


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b"", []),
        (b"\n\n", []),
        (b'{"a":1}\n{"a":2}\n', [b'{"a":1}', b'{"a":2}']),
        (b'{"a":1}\n{"a":2}', [b'{"a":1}', b'{"a":2}']),
        (b'1\r\n\r\n "x" \t\r\n', [b"1", b'"x"']),
        (b'{"a": 1.50, "b":"\xc3\xa9"}\n', [b'{"a": 1.50, "b":"\xc3\xa9"}']),
        (b"12345678901234567890123\n1e999\n", [b"12345678901234567890123", b"1e999"]),
    ],
)
def test_each_line_is_a_value_as_it_was_sent(body: bytes, values: list[bytes]):
    read = ndjson.read(body)
    assert (read.values, read.bad) == (values, [])


@pytest.mark.parametrize(
    ("body", "bad"),
    [
        (b'{"a":1}\n{"a":\n', [2]),
        (b"1 2\n3\n", [1]),
        (b'{"a":\n1}\n', [1, 2]),
        (b"[1,\n2]\n3 4\n", [1, 2, 3]),  # as many values as lines, and yet no line is one
        (b'1\n\n"\xff"\n', [3]),
        (b'"a\tb"\n1\nNaN\n\x0b2\n', [1, 3, 4]),
        (b"\xef\xbb\xbf1\n", [1]),
        (b"[" * 100_000 + b"\n1", [1]),
    ],
)
def test_a_bad_line_is_named_and_the_others_are_kept(body: bytes, bad: list[int]):
    read = ndjson.read(body)
    assert [each.line for each in read.bad] == bad
    assert len(read.values) == sum(1 for line in body.split(b"\n") if line.strip()) - len(bad)


@given(st.binary(max_size=60) | st.text('[]{},:" \n\r1truefals\\', max_size=40).map(str.encode))
def test_any_bytes_are_read_as_line_by_line(body: bytes):
    read = ndjson.read(body)
    shown = [(number, line.strip(b" \t\r")) for number, line in enumerate(body.split(b"\n"), 1)]
    good = [(n, line) for n, line in shown if line and is_json(line)]
    assert list(zip(read.numbers, read.values, strict=True)) == good
    assert [each.line for each in read.bad] == [
        n for n, line in shown if line and not is_json(line)
    ]


def is_json(line: bytes) -> bool:
    try:
        text = line.decode()
        json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError):
        return False
    return not text.startswith("\ufeff")


def refuse(constant: str) -> None:
    raise ValueError(constant)


def test_a_field_becomes_the_key():
    meant = [{"id": 17}, {"id": "x"}, {"id": {"n": 1.5}}, {"id": True}, {}, [], None]
    texts = [json.dumps(each).encode() for each in meant]
    keys, failed = ndjson.keys(texts, "id")
    assert keys[:2] == [b"17", b"x"]
    assert sorted(failed) == [2, 3, 4, 5, 6]
    assert ndjson.keys(texts[2:3], "id.n") == ([b"1.5"], {})


def test_a_number_that_no_float_holds_fails_alone():
    meant, failed = ndjson.objects([b"1", b"1e999", b'{"a":2}'])
    assert meant == [1, None, {"a": 2}]
    assert list(failed) == [1]


@pytest.mark.parametrize("way", ["no JSON", "no key", "a schema"])
def test_behind_too_many_that_are_no_good_nothing_is_looked_at(
    way: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(ndjson, "BAD_MAX", 10)
    monkeypatch.setattr(ndjson, "PIECE_BYTES", 1)
    looked: list[object] = []

    def look(*words: object) -> dict[int, str] | str | None:
        looked.append(words)
        return {0: "bad"} if way == "a schema" else "bad" if way == "no JSON" else None

    monkeypatch.setattr(ndjson, "complaint", look)
    monkeypatch.setattr(ndjson.json_values, "at", look)
    values = [b"x"] * 100
    ways: dict[str, Callable[[], object]] = {
        "no JSON": lambda: ndjson.read(b"\n".join(values)),
        "no key": lambda: ndjson.keys(values, "id"),
        "a schema": lambda: ndjson.complaints(values, look),  # type: ignore[arg-type]
    }
    with pytest.raises(TooLarge, match="more than 10 lines are no good"):
        ways[way]()
    assert len(looked) == 11
