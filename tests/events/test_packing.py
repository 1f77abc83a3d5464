"""The quick way to a record batch gives the same bytes as the general one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.events.writer import pack
from headwater.record.records import Record, build

pairs = st.tuples(st.binary(max_size=200), st.binary(max_size=9000))


@given(st.lists(pairs, min_size=1, max_size=150), st.integers(0, 1 << 45))
def test_both_ways_give_the_same_bytes(found: list[tuple[bytes, bytes]], at_ms: int):
    records = [Record(n, at_ms, key, value) for n, (key, value) in enumerate(found)]
    general = build(records, producer_id=7, producer_epoch=3, base_sequence=11)
    assert pack(found, at_ms, 7, 3, 11) == general
