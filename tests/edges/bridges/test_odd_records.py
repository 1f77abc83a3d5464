"""Records that anybody may have written, on their way out: none of them holds up those behind it."""

from __future__ import annotations

import pytest

from headwater.client.records import Record
from headwater.edges.bridges.amqp_messages import properties_of
from headwater.edges.bridges.zeromq import frames_of

LAST_SECOND_MS = 253_402_300_799_000
"""Of the year 9999."""


@pytest.mark.parametrize("number", ["²", "٣", "1" * 5000, "", "-1", "x"])
def test_a_header_that_only_looks_like_a_frame_is_none(number: str):
    headers = ((f"zmq-frame-{number}", b"no"), ("zmq-frame-2", b"b"), ("zmq-frame-1", b"a"))
    assert frames_of(Record("t", 0, 0, 0, b"k", b"v", headers)) == [b"k", b"a", b"b", b"v"]


@pytest.mark.parametrize("at_ms", [-1, -(10**12), LAST_SECOND_MS + 1000, 2**62])
def test_a_time_that_amqp_does_not_have_is_left_out(at_ms: int):
    made = properties_of(Record("t", 0, 0, at_ms, None, b"v", ()))
    assert made.timestamp is None
    assert made.marshal()


@pytest.mark.parametrize("at_ms", [0, 1_794_996_469_000, LAST_SECOND_MS])
def test_a_time_that_amqp_has_stays(at_ms: int):
    made = properties_of(Record("t", 0, 0, at_ms, None, b"v", ()))
    assert made.timestamp is not None and made.timestamp.timestamp() * 1000 == at_ms
    assert made.marshal()
