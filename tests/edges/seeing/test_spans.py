"""What is told of a record's way: the capture's span, and one for each reader that passes it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from headwater.client.records import Record
from headwater.edges.tracing.in_flight import NOBODY_NS, OF_A_TRACE_MAX, RECORDS_MAX, Pending
from headwater.edges.tracing.spans import Followed, capture_span, described, followed
from headwater.edges.tracing.traceparent import Context, parse

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
S, MS = 10**9, 10**6
PATIENCE = 300 * S
APPENDED_MS = 1_763_245_200_000
NOW = APPENDED_MS * MS


def record(
    traceparent: str | None = TRACE, tracestate: str | None = None, value: object = None
) -> Record:
    said = {"traceparent": traceparent, "tracestate": tracestate}
    headers = tuple((name, text.encode()) for name, text in said.items() if text is not None)
    body = None if value is None else json.dumps(value).encode()
    return Record("shop.orders", 0, 17, APPENDED_MS, b"k", body, headers)


def waiting(offset: int = 17, trace: int = 1, partition: int = 0) -> Followed:
    return Followed(Context(trace, 2), "orders", partition, offset, APPENDED_MS)


def at(offset: int, partition: int = 0) -> dict[tuple[str, int], int]:
    return {("orders", partition): offset}


# ---- what the record says ---------------------------------------------------------------------------


def test_only_a_sampled_record_is_followed():
    found = followed(record())
    assert found is not None
    assert (found.place, found.offset) == (("shop.orders", 0), 17)
    assert followed(record(f"{TRACE[:-2]}00")) is None
    assert followed(record(None)) is None
    assert followed(record("hello")) is None


def test_the_captures_span_goes_from_the_commit_to_the_append():
    #    commit        read       append
    #  -120 ms       -20 ms         0
    #     [──────────────┊──────────]     capture shop
    value = {"source": {"ts_ms": APPENDED_MS - 120}, "op": "c"}
    read_us = APPENDED_MS * 1000 - 20_000
    one = record(tracestate=f"headwater=capture:shop:{read_us}", value=value)
    each = followed(one)
    assert each is not None
    span = capture_span(one, each)
    assert span is not None
    assert (span.name, span.parent_id, span.context) == ("capture shop", None, parse(TRACE))
    assert (span.start_ns, span.end_ns) == (NOW - 120 * MS, NOW)
    assert span.events == ((read_us * 1000, "read from the database"),)
    assert span.attributes["messaging.destination.name"] == "shop.orders"


def test_an_envelope_with_its_schema_or_finer_times_is_understood():
    mark = f"headwater=capture:shop:{APPENDED_MS * 1000}"
    for source in ({"ts_ms": 5, "ts_us": 5_123}, {"ts_us": 5_123}, {"ts_ns": 5_123_000}):
        one = record(tracestate=mark, value={"payload": {"source": source}})
        each = followed(one)
        assert each is not None
        span = capture_span(one, each)
        assert span is not None and span.start_ns == 5_123_000


def test_where_the_database_tells_no_time_the_span_begins_when_it_was_read():
    read_us = APPENDED_MS * 1000 - 5_000
    one = record(tracestate=f"headwater=capture:shop:{read_us}", value=["no envelope"])
    each = followed(one)
    assert each is not None
    span = capture_span(one, each)
    assert span is not None and span.start_ns == read_us * 1000


def test_a_record_of_an_application_gets_no_span_of_a_capture():
    for said in (None, "congo=1", "headwater=capture", "headwater=capture:shop:soon"):
        one = record(tracestate=said)
        each = followed(one)
        assert each is not None
        assert capture_span(one, each) is None


def test_groups_are_called_what_people_call_them():
    assert described("headwater-order_search") == ("view", "order_search")
    assert described("headwater.webhook.billing") == ("webhook", "billing")
    assert described("headwater.bridge.sensors") == ("bridge", "sensors")
    assert described("billing") == ("group", "billing")


# ---- who has passed it ------------------------------------------------------------------------------


def test_a_reader_is_told_once_when_its_position_passes_the_record():
    #   append       look        look: passed       look
    #     0 ──────── 1 s ────────── 1.1 s ─────────  2 s
    #     [───────────────────────────]   view search: within the last 100 ms
    pending = Pending(PATIENCE)
    assert pending.add(waiting(17), NOW + S // 2)
    assert pending.look({"headwater-search": at(17)}, NOW + S) == []
    (span,) = pending.look({"headwater-search": at(18)}, NOW + S + 100 * MS)
    assert (span.name, span.parent_id) == ("view search", 2)
    assert (span.start_ns, span.end_ns) == (NOW, NOW + S + 100 * MS)
    assert span.attributes["headwater.seen_within_ms"] == 100.0
    assert span.failed is None
    assert len(pending) == 0
    assert pending.look({"headwater-search": at(18)}, NOW + 2 * S) == []


def test_a_look_before_the_record_was_known_narrows_nothing():
    pending = Pending(PATIENCE)
    pending.look({"headwater-search": at(18)}, NOW + S)
    pending.add(waiting(17), NOW + 2 * S)
    (span,) = pending.look({"headwater-search": at(18)}, NOW + 3 * S)
    assert span.attributes["headwater.seen_within_ms"] == 3000.0


def test_a_record_waits_for_every_reader_of_its_topic():
    pending = Pending(PATIENCE)
    pending.add(waiting(17), NOW)
    both = {"headwater-quick": at(18), "headwater-slow": at(3), "elsewhere": {("other", 0): 99}}
    assert [span.name for span in pending.look(both, NOW + S)] == ["view quick"]
    assert len(pending) == 1
    both["headwater-slow"] = at(40)
    assert [span.name for span in pending.look(both, NOW + 2 * S)] == ["view slow"]
    assert len(pending) == 0


def test_a_reader_that_does_not_come_is_told_as_failed():
    pending = Pending(PATIENCE)
    pending.add(waiting(17), NOW)
    stuck = {"headwater-stuck": at(3)}
    assert pending.look(stuck, NOW + PATIENCE - 1) == []
    (span,) = pending.look(stuck, NOW + PATIENCE)
    assert span.failed == "had not passed the record after 300 s"
    assert len(pending) == 0


def test_a_topic_without_readers_is_not_waited_for_long():
    pending = Pending(PATIENCE)
    pending.add(waiting(17), NOW)
    assert pending.look({}, NOW + NOBODY_NS - 1) == []
    assert len(pending) == 1
    assert pending.look({}, NOW + NOBODY_NS) == []
    assert len(pending) == 0


def test_no_more_is_kept_than_the_bounds_allow():
    pending = Pending(PATIENCE)
    assert all(pending.add(waiting(n, trace=1), NOW) for n in range(OF_A_TRACE_MAX))
    assert not pending.add(waiting(OF_A_TRACE_MAX, trace=1), NOW)
    for n in range(RECORDS_MAX):
        pending.add(waiting(n, trace=n + 2, partition=1), NOW)
    assert len(pending) == RECORDS_MAX
    assert pending.left_out == 1 + OF_A_TRACE_MAX
    pending.look({"headwater-all": {("orders", 0): 10**6, ("orders", 1): 10**6}}, NOW + S)
    assert len(pending) == 0
    assert pending.add(waiting(1, trace=1), NOW + S)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30)), max_size=30, unique=True),
    st.lists(
        st.dictionaries(
            st.sampled_from(["headwater-a", "headwater-b", "c"]),
            st.dictionaries(st.integers(0, 2), st.integers(0, 40), max_size=3),
            max_size=3,
        ),
        max_size=6,
    ),
)
def test_every_span_is_true_and_told_once(
    records: list[tuple[int, int]], looks: list[dict[str, dict[int, int]]]
):
    pending = Pending(PATIENCE)
    for number, (partition, offset) in enumerate(records):
        pending.add(waiting(offset, number + 1, partition), NOW)
    told = set()
    for turn, readers in enumerate(looks, 1):
        positions = {g: {("orders", p): o for p, o in ps.items()} for g, ps in readers.items()}
        for span in pending.look(positions, NOW + turn * S):
            partition = int(span.attributes["messaging.destination.partition.id"])
            group = str(span.attributes["messaging.consumer.group.name"])
            offset = int(span.attributes["messaging.kafka.offset"])
            assert readers[group][partition] > offset
            assert (group, partition, offset) not in told
            told.add((group, partition, offset))
    assert 0 <= len(pending) <= len(records)
