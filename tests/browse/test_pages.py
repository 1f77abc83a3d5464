"""Pages: every record once, in either direction, whatever holes there are."""

from __future__ import annotations

import pytest

from headwater.browse.pages import Bounds, Page, page
from headwater.client.errors import BadRequest, NotThere
from headwater.client.places import BEGINNING, END, Place, is_beyond, parse, time_of
from headwater.client.records import Cursor
from tests.browse.conftest import make_topic, put, until

T0 = 1_700_000_000_000


def all_pages(log, topic: str, *, back: bool, **words) -> list[Page]:
    found = [page(log, topic, back=back, **words)]
    while (rest := found[-1].next) is not None:
        # Through its text, as a link has it.
        place = Place(cursor=Cursor.parse(str(rest)))
        found.append(page(log, topic, place, back=back, **words))
    return found


def places(pages: list[Page]) -> list[tuple[int, int]]:
    return [(r.partition, r.offset) for each in pages for r in each.records]


@pytest.fixture(scope="module")
def three(log) -> str:
    """Three partitions, written in turn: the timestamps say the order of all."""
    name = make_topic(log, 3, retention_ms=-1)
    put(
        log,
        name,
        [
            {"value": b"v%d" % i, "key": b"k%d" % (i % 7), "partition": i % 3, "timestamp": T0 + i}
            for i in range(100)
        ],
    )
    return name


@pytest.mark.parametrize("limit", [1, 7, 100, 1000])
@pytest.mark.parametrize("back", [False, True])
def test_pages_show_every_record_once_in_the_order_of_time(log, three, limit, back):
    pages = all_pages(log, three, back=back, limit=limit)
    times = [r.timestamp_ms - T0 for each in pages for r in each.records]
    assert times == (list(range(99, -1, -1)) if back else list(range(100)))
    assert all(len(each.records) == limit for each in pages[:-1])


def test_a_page_begins_at_an_offset_a_time_or_a_place_of_one_partition(log, three):
    assert page(log, three, parse("5"), limit=1).records[0].timestamp_ms == T0 + 15
    assert page(log, three, parse("2:5"), limit=1).records[0].timestamp_ms == T0 + 17
    assert page(log, three, Place(time_ms=T0 + 40), limit=1).records[0].timestamp_ms == T0 + 40
    assert page(log, three, Place(time_ms=T0 + 40), back=True, limit=1).records[0].offset == 13
    assert page(log, three, Place(time_ms=T0 + 999)).records == []
    assert page(log, three, END).next is None


def test_until_ends_a_page_from_either_side(log, three):
    found = page(log, three, parse("10"), until=parse("12"))
    assert {r.offset for r in found.records} == {10, 11}
    found = page(log, three, parse("12"), until=parse("10"), back=True)
    assert {r.offset for r in found.records} == {10, 11}


def test_bounds_cut_a_filtered_page_and_the_cursor_goes_on(log, three):
    seen = []
    found = page(log, three, keep=lambda r: r.key == b"k3", bounds=Bounds(scanned_max=10))
    for _ in range(100):
        seen += [r.value for r in found.records]
        if found.next is None:
            break
        assert found.is_cut
        assert found.scanned <= 10
        found = page(
            log,
            three,
            Place(cursor=found.next),
            keep=lambda r: r.key == b"k3",
            bounds=Bounds(scanned_max=10),
        )
    assert sorted(seen) == sorted(b"v%d" % i for i in range(100) if i % 7 == 3)


@pytest.mark.parametrize("back", [False, True])
def test_large_records_make_short_pages_and_none_is_left_out(log, back):
    name = make_topic(log, 2, retention_ms=-1)
    rows = [{"value": bytes(100_000), "key": b"%d" % i, "partition": i % 2} for i in range(40)]
    put(log, name, rows)
    pages = all_pages(log, name, back=back, limit=30, bounds=Bounds(bytes_max=500_000))
    keys = [int(record.key) for each in pages for record in each.records]
    assert sorted(keys) == list(range(40))
    assert max(sum(len(record.value) for record in each.records) for each in pages) <= 600_000


def test_aborted_records_and_markers_are_no_records(log, topic):
    name = topic()
    producer = log.new_producer(transactional_id=f"pages-{name}")
    producer.init_transactions(30)
    for number in range(30):
        producer.begin_transaction()
        producer.produce(name, b"%d" % number)
        producer.flush(30)
        if number % 3:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    expected = [b"%d" % number for number in range(0, 30, 3)]
    ranges = until(
        lambda: log.ranges(name)[0][1] >= 60 and log.ranges(name), "the last marker to be visible"
    )
    assert ranges == {0: (0, 60)}
    forward = all_pages(log, name, back=False, limit=4)
    assert [r.value for each in forward for r in each.records] == expected
    back = all_pages(log, name, back=True, limit=4)
    assert [r.value for each in back for r in each.records] == expected[::-1]


def test_what_compaction_took_is_no_gap_in_the_pages(log, topic):
    name = topic(
        cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, internal_segment_bytes=20_000
    )
    rows = [{"key": b"%d" % (i % 10), "value": b"%d" % i * 20} for i in range(1200)]
    put(log, name, rows, batch_num_messages=50)
    until(lambda: len(page(log, name, limit=2000).records) < 600, "compaction")
    everything = page(log, name, limit=2000).records
    back = page(log, name, back=True, limit=2000).records
    assert {r.key: r.value for r in everything} == {r.key: r.value for r in reversed(back)}
    assert {r.value for r in page(log, name, back=True, limit=10).records} == {
        b"%d" % i * 20 for i in range(1190, 1200)
    }


def test_an_empty_topic_has_an_empty_page(log, topic):
    name = topic(2)
    for back in (False, True):
        found = page(log, name, back=back)
        assert (found.records, found.next, found.is_cut) == ([], None, False)


def test_a_topic_or_partition_that_is_not_there_is_said(log, three):
    with pytest.raises(NotThere, match="there is no topic 'nowhere'"):
        page(log, "nowhere")
    with pytest.raises(NotThere, match="has no partition 9"):
        page(log, three, partitions=[9])
    with pytest.raises(NotThere, match="has no partition 9"):
        page(log, three, parse("9:1"))


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("beginning", BEGINNING),
        ("end", END),
        ("17", Place(17)),
        ("2:17", Place(17, 2)),
        ("0=12,1=340", Place(cursor=Cursor({0: 12, 1: 340}))),
        ("2026-11-15T15:00", Place(time_ms=1_794_754_800_000)),
        ("2026-11-15T16:00+01:00", Place(time_ms=1_794_754_800_000)),
        ("-90s", Place(time_ms=1_000_000 - 90_000)),
        ("-1.5h", Place(time_ms=1_000_000 - 5_400_000)),
    ],
)
def test_words_for_a_place(words, place):
    assert parse(words, now_ms=1_000_000) == place


@pytest.mark.parametrize("words", ["", "soon", "-", "-10y", "1:2:3", "0=", "-5"])
def test_words_that_are_no_place_are_said_with_those_that_are(words):
    with pytest.raises(BadRequest) as caught:
        parse(words)
    assert "-10m" in (caught.value.hint or "")
    with pytest.raises(BadRequest):
        time_of(words)


def test_an_offset_beyond_every_end_is_known_as_such():
    held = {0: (0, 10), 1: (5, 20)}
    assert is_beyond(Place(21), held)
    assert not is_beyond(Place(20), held)
    assert is_beyond(Place(11, 0), held)
    assert not is_beyond(END, held)
