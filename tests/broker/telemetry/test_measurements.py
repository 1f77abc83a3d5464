"""Reading OpenTelemetry messages: whole, byte by byte, and any bytes."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.broker.telemetry import collector
from headwater.broker.telemetry.collector import BadMetrics, measurements


def field(number: int, content: bytes) -> bytes:
    assert len(content) < 128
    return bytes((number << 3 | 2, len(content))) + content


def fixed(number: int, content: bytes) -> bytes:
    return bytes((number << 3 | 1,)) + content


GAUGE = field(1, b"a.gauge") + field(5, field(1, fixed(4, struct.pack("<d", 1.5))))
SUM = field(1, b"a.sum") + field(7, field(1, fixed(6, struct.pack("<q", -7))) + b"\x10\x02")
HISTOGRAM = field(1, b"h") + field(
    9, field(1, fixed(4, struct.pack("<Q", 3)) + fixed(5, struct.pack("<d", 9.0)))
)
MESSAGE = field(1, field(2, field(2, GAUGE) + field(2, SUM) + field(2, HISTOGRAM)))


def test_names_and_numbers_are_read():
    assert measurements(MESSAGE) == {"a.gauge": 1.5, "a.sum": -7.0, "h": 9.0}
    assert measurements(b"") == {}


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_json_has_no_word_for_is_left_out(number: float):
    odd = field(1, b"odd") + field(5, field(1, fixed(4, struct.pack("<d", number))))
    data = field(1, field(2, field(2, odd) + field(2, SUM)))
    assert measurements(data) == {"a.sum": -7.0}


def test_a_message_that_ends_early_is_refused():
    for end in range(1, len(MESSAGE)):
        with pytest.raises(BadMetrics):
            measurements(MESSAGE[:end])


@pytest.mark.parametrize("depth", range(4))
def test_fields_without_end_are_not_walked(depth: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(collector, "FIELDS_MAX", 50)
    empty = b"\x7a\x00" * 60
    for number in (2, 2, 1)[3 - depth :]:
        empty = field(number, empty)
    with pytest.raises(BadMetrics, match="more than 50 fields"):
        measurements(empty)
    assert len(measurements(MESSAGE)) == 3


@given(st.binary(max_size=200))
def test_any_bytes_parse_or_are_refused(data):
    try:
        measurements(data)
    except BadMetrics:
        pass
