"""What travels with a record: the header of W3C Trace Context, and who is sampled."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.edges.tracing.traceparent import (
    Context,
    begun,
    child,
    parse,
    span_id_of,
    state,
    without_ours,
)

EXAMPLE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_the_example_of_the_standard_is_read_and_written():
    found = parse(EXAMPLE)
    assert found == Context(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, True)
    assert str(found) == EXAMPLE


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "hello",
        EXAMPLE.upper(),
        EXAMPLE[:-1],
        f"{EXAMPLE}-more",
        "ff" + EXAMPLE[2:],
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        b"\xff\xfe",
    ],
)
def test_what_the_standard_does_not_allow_is_none(text: str | bytes | None):
    assert parse(text) is None


def test_a_version_to_come_may_have_more_fields():
    found = parse(f"cc{EXAMPLE[2:]}-more")
    assert found is not None and found.sampled


def test_only_the_lowest_flag_says_that_it_is_sampled():
    assert parse(f"{EXAMPLE[:-2]}03") == parse(EXAMPLE)
    unsampled = parse(f"{EXAMPLE[:-2]}02")
    assert unsampled is not None and not unsampled.sampled


@given(st.binary(max_size=80) | st.text(max_size=80))
def test_any_header_parses_or_is_none(text: str | bytes):
    assert parse(text) is None or isinstance(parse(text), Context)


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1), st.booleans())
def test_what_is_written_is_read_again(trace_id: int, span_id: int, sampled: bool):
    context = Context(trace_id, span_id, sampled)
    assert parse(str(context)) == context
    assert parse(str(context).encode()) == context


def test_our_entry_of_the_state_is_found_among_others():
    said = "congo=t61rcWkgMzE, headwater=capture:shop:17 ,rojo=00f067"
    assert state(said) == "capture:shop:17"
    assert without_ours(said.encode()) == "congo=t61rcWkgMzE,rojo=00f067"
    assert state(None) is None
    assert without_ours(None) == ""


def test_the_share_that_was_asked_for_begins_a_trace():
    chance = random.Random(7)
    found = [begun(0.1, chance) for _ in range(10_000)]
    traces = [each for each in found if each is not None]
    assert 850 < len(traces) < 1150
    assert len({each.trace_id for each in traces}) == len(traces)
    # OpenTelemetry's own sampler, at the same ratio, keeps every one of them.
    assert all(each.trace_id % 2**64 < 0.1 * 2**64 for each in traces)


def test_a_ratio_of_none_and_of_all_are_exact():
    chance = random.Random(7)
    assert [begun(0, chance) for _ in range(100)] == [None] * 100
    assert all(begun(1, chance) for _ in range(100))


def test_a_child_is_another_span_of_the_same_trace():
    parent = parse(EXAMPLE)
    assert parent is not None
    found = child(parent, random.Random(1))
    assert found.trace_id == parent.trace_id
    assert found.span_id != parent.span_id


def test_the_same_words_give_the_same_span():
    assert span_id_of("a", 1) == span_id_of("a", 1) != span_id_of("a1")
    assert 0 < span_id_of() < 2**64
