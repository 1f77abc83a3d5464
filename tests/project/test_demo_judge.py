"""The demo's judge finds what it is there to find: each kind of difference, planted one at a time."""

from __future__ import annotations

import pytest

from headwater.project.demo import DemoFailed, ShopFound, Summary, ViewFound
from headwater.project.demo.job import KEYS, PARTITIONS, Judge, Notes, nth_of, value_of

RECORDS = 3 * KEYS

Place = tuple[int, int, bytes, bytes]


def written() -> list[Place]:
    """(partition, offset, key, value) of every record, as the producer would have placed them."""
    next_offset = [0] * PARTITIONS
    places = []
    for number in range(RECORDS):
        partition = number % KEYS % PARTITIONS
        key = b"customer-%04d" % (number % KEYS)
        places.append((partition, next_offset[partition], key, value_of(number)))
        next_offset[partition] += 1
    return places


def judged(acknowledged: list[Place], read: list[Place]) -> Summary:
    notes = Notes()
    for partition, offset, _, value in acknowledged:
        notes.add(partition, offset, value)
    summary = Summary(topic="demo", durability="disk", data="nowhere")
    summary.produced, summary.acknowledged = RECORDS, notes.acknowledged
    judge = Judge(notes, summary)
    for place in read:
        judge.look_at(*place)
    judge.conclude()
    return summary


def test_a_faithful_replay_is_verified():
    summary = judged(written(), written())
    assert summary.verified
    assert summary.replayed == RECORDS


def test_a_lost_record_is_found():
    places = written()
    summary = judged(places, places[:-1])
    assert summary.lost == 1
    assert not summary.verified


def test_a_record_that_is_there_twice_is_found():
    places = written()
    partition, _, key, value = places[-1]
    twice = (partition, RECORDS, key, value)
    summary = judged(places, [*places, twice])
    assert summary.duplicated == 1
    assert not summary.verified


def test_a_changed_byte_is_found():
    places = written()
    partition, offset, key, value = places[5]
    summary = judged(
        places, [*places[:5], (partition, offset, key, value[:-1] + b"!"), *places[6:]]
    )
    assert summary.different == 1
    assert not summary.verified


def test_two_records_of_a_key_in_the_wrong_order_are_found():
    places = written()
    first, second = places[0], places[KEYS]
    assert first[2] == second[2]
    swapped = [
        (*first[:3], second[3]),
        *places[1:KEYS],
        (*second[:3], first[3]),
        *places[KEYS + 1 :],
    ]
    summary = judged(swapped, swapped)
    assert summary.out_of_order > 0
    assert summary.lost == summary.duplicated == summary.different == 0
    assert not summary.verified


def test_a_record_that_was_never_acknowledged_spoils_the_verdict():
    places = written()
    assert not judged(places[:-1], places[:-1]).verified


def test_a_view_that_differs_from_its_database_spoils_the_verdict():
    places = written()
    summary = judged(places, places)
    summary.shop = ShopFound("SQLite", "a file", views=[ViewFound("spent", "sqlite", rows=10)])
    assert summary.verified
    summary.shop.views[0].different = 1
    assert not summary.verified
    summary.shop.views = [ViewFound("spent", "sqlite", rows=0)]
    assert not summary.verified, "a view without rows proves nothing"
    summary.shop.views = []
    assert not summary.verified, "nor does a shop without views"


def test_nothing_written_is_not_a_success():
    assert not Summary(topic="demo", durability="disk", data="nowhere").verified


def test_a_record_without_a_value_stops_the_comparison():
    with pytest.raises(DemoFailed, match="without key or value"):
        judged([], [(0, 0, b"key", None)])  # type: ignore[list-item]


def test_the_number_in_a_value_can_be_read_back():
    assert [nth_of(value_of(number)) for number in (0, KEYS, 5 * KEYS + 3)] == [0, 1, 5]
    assert len(value_of(10**11)) == 100
