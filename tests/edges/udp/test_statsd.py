"""StatsD lines, as clients write them and as they should not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.edges.udp.statsd import Malformed, lines, metrics


def read(line: str) -> list[dict[str, Any]]:
    found = metrics(line.encode())
    assert all(each.key == line.encode().partition(b":")[0] for each in found)
    return [json.loads(each.value) for each in found]


def one(line: str) -> dict[str, Any]:
    (found,) = read(line)
    return found


def test_a_counter_has_its_name_value_and_type():
    assert one("page.views:1|c") == {
        "name": "page.views", "value": 1, "type": "counter", "rate": 1, "tags": {},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("letter", "type_"),
    [
        ("c", "counter"),
        ("g", "gauge"),
        ("ms", "timer"),
        ("h", "histogram"),
        ("d", "distribution"),
        ("s", "set"),
        ("m", "meter"),
    ],
)
def test_each_letter_is_a_type(letter: str, type_: str):
    assert one(f"n:5|{letter}")["type"] == type_


def test_sample_rate_and_tags_are_kept():
    found = one("api:320|ms|@0.1|#env:prod,fast,url:http://x")
    assert found["rate"] == 0.1
    assert found["tags"] == {"env": "prod", "fast": "", "url": "http://x"}


def test_a_tag_that_came_twice_keeps_both_values():
    assert one("n:1|c|#a:1,b:2,a:3")["tags"] == {"a": "1,3", "b": "2"}


@pytest.mark.parametrize(
    ("written", "value", "change"),
    [("333", 333, None), ("+4", 4, True), ("-10", -10, True), ("-0.5", -0.5, True)],
)
def test_a_gauge_with_a_sign_is_a_change(written: str, value: float, change: bool | None):
    found = one(f"fuel:{written}|g")
    assert found["value"] == value
    assert found.get("change") is change


def test_a_negative_counter_is_no_change_of_a_gauge():
    assert one("n:-3|c")["value"] == -3
    assert "change" not in one("n:-3|c")


def test_several_values_are_several_records():
    assert [each["value"] for each in read("n:1:2.5:3|d|#a:b")] == [1, 2.5, 3]
    assert [each.get("change") for each in read("n:1:+2|g")] == [None, True]


def test_the_member_of_a_set_is_text_and_may_hold_colons():
    assert one("users:a:b:7|s")["value"] == "a:b:7"
    assert one("users:1234|s")["value"] == "1234"


def test_the_later_fields_of_dogstatsd_are_understood():
    found = one("n:1|c|#a:b|T1656581400|c:ci-abc|e:it-false,cn-web|card:low")
    assert found["timestamp"] == 1656581400
    assert (found["container"], found["external"]) == ("ci-abc", "it-false,cn-web")
    assert found["cardinality"] == "low"


def test_a_field_from_the_future_is_kept():
    assert one("n:1|c|zz:9|@0.5")["other"] == ["zz:9"]
    assert one("n:1|c||@0.5")["rate"] == 0.5


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("007", 7),
        ("1e3", 1000),
        (".5", 0.5),
        ("5.", 5),
        ("0.10", 0.1),
        ("-0", 0),
        ("123456789012345678", 123456789012345678),
        ("1" * 25, int("1" * 25)),
    ],
)
def test_numbers_are_read_as_people_write_them(written: str, value: float):
    found = one(f"n:{written}|c")["value"]
    assert found == (value if value < 2**60 else pytest.approx(value))


def test_names_are_kept_as_they_were_sent():
    assert one("größe/x y:1|c")["name"] == "größe/x y"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "NAME:VALUE"),
        (b"n", "NAME:VALUE"),
        (b"n:1", "NAME:VALUE"),
        (b":1|c", "no name"),
        (b"n:|c", "no number"),
        (b"n:x|c", "no number"),
        (b"n:nan|g", "no number"),
        (b"n:1e999|g", "no number"),
        (b"n:1::2|c", "no number"),
        (b"n:1|", "type"),
        (b"n:1|q", "type"),
        (b"n:1|c|@0", "sample rate"),
        (b"n:1|c|@2", "sample rate"),
        (b"n:1|c|@x", "sample rate"),
        (b"n:1|c|Tsoon", "timestamp"),
        (b"n:1|c|#\xff", "UTF-8"),
        (b"\xff:1|c", "UTF-8"),
        (b"n\x00:1|c", "control"),
        (b"x" * 2000 + b":1|c", "longer"),
        (b"_e{5,4}:title|text", "event"),
    ],
)
def test_what_is_no_line_is_refused_with_a_reason(line: bytes, why: str):
    with pytest.raises(Malformed, match=why):
        metrics(line)


def test_a_datagram_is_split_at_its_line_ends():
    assert lines(b"a:1|c\nb:2|c\r\n\n") == [b"a:1|c", b"b:2|c"]
    assert lines(b"a:1|c") == [b"a:1|c"]
    assert lines(b"") == lines(b"\n") == []


_LIKELY = rb"[a-z]{0,2}:[-+0-9.e:]{0,8}\|(c|g|s|ms)(\|[@#Tc:0-9.,]{0,8}){0,2}"


@given(st.binary(max_size=60) | st.from_regex(_LIKELY, fullmatch=True))
def test_any_bytes_are_records_or_refused(line: bytes):
    try:
        found = metrics(line)
    except Malformed:
        return
    for each in found:
        assert json.loads(each.value)["name"] == each.key.decode()


def test_a_line_with_very_many_tags_is_understood_too():
    tags = ",".join(f"t{number}:{number}" for number in range(1000))
    assert len(one(f"n:1|c|#{tags}")["tags"]) == 1000
