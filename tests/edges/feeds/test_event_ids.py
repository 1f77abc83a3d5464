"""Ids of events: what a client has, as text and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.client.errors import BadRequest, NotThere
from headwater.edges.feeds.event_ids import lost, parse, placed, text_of

OFFSETS = st.dictionaries(st.integers(0, 999), st.integers(0, 2**59), min_size=1)


@given(OFFSETS)
def test_an_id_comes_back_as_the_offsets_that_it_was_made_of(offsets):
    assert parse(text_of(offsets)) == offsets


@given(st.text())
def test_any_text_is_an_id_or_misunderstood(text):
    try:
        found = parse(text)
    except BadRequest:
        return
    assert parse(text_of(found)) == found


@pytest.mark.parametrize("text", ["", "0", "0=", "=1", "0=1,", "0=-1", "0=1;1=2", "a=1", "0=1,0=2"])
def test_what_no_changefeed_gave_out_is_misunderstood(text):
    with pytest.raises(BadRequest):
        parse(text)


def test_a_partition_that_came_later_is_read_from_its_beginning():
    assert placed("orders", {0: 5}, {0: (0, 9), 1: (3, 4)}) == {0: 5, 1: 0}


def test_an_id_of_a_topic_that_was_made_anew_is_told_so():
    with pytest.raises(NotThere, match="ends at 0=9"):
        placed("orders", {0: 10}, {0: (0, 9)})
    with pytest.raises(NotThere, match="no such partition"):
        placed("orders", {1: 0}, {0: (0, 9)})


def test_what_retention_took_meanwhile_is_named():
    assert lost({0: 5, 1: 7}, {0: (8, 20), 1: (7, 9)}) == {0: (5, 8)}
