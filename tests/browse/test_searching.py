"""By key: where Kafka's partitioner puts it, then elsewhere, and honest about it."""

from __future__ import annotations

import pytest

from headwater.browse.decoder import Decoder
from headwater.browse.pages import Bounds
from headwater.browse.search import by_key
from headwater.browse.state import state_of
from headwater.client.partitioner import by_crc32, by_murmur2
from headwater.client.places import Place
from headwater.client.publisher import Draft, publish
from headwater.client.topics import listed, named
from tests.browse.conftest import put


def test_a_key_is_looked_for_where_kafkas_partitioner_puts_it(log, topic):
    name = topic(8)
    for number in range(5):
        publish(log, name, Draft(b"ann", b"%d" % number))
        publish(log, name, Draft(b"bob", b"%d" % number))
    found = by_key(log, name, "ann", Decoder(log))
    assert [r.value for r in found.page.records] == [b"4", b"3", b"2", b"1", b"0"]
    assert found.partitions == [by_murmur2(b"ann", 8)]
    assert found.note is None


def test_a_key_that_is_elsewhere_is_found_and_said(log, topic):
    name = topic(8)
    right, other = by_murmur2(b"ann", 8), by_crc32(b"ann", 8)
    assert right != other
    put(log, name, [{"key": b"ann", "value": b"1", "partition": other}])
    found = by_key(log, name, "ann", Decoder(log))
    assert [r.value for r in found.page.records] == [b"1"]
    assert found.note == (
        f"The key is in partition {other}, not where Kafka's partitioner would put it."
    )
    nowhere = by_key(log, name, "nobody", Decoder(log))
    assert (nowhere.page.records, nowhere.others, nowhere.note) == ([], [], None)


@pytest.mark.parametrize(
    "stored",
    [b'{"id":17}', b'{"id": 17}', b'{"schema":{},"payload":{"id":17}}', b"17"],
)
def test_a_key_is_found_by_what_a_person_calls_it(log, topic, stored):
    name = topic(3)
    other = stored.replace(b"17", b"18")
    for key in (other, stored, other):
        publish(log, name, Draft(key, b"v"))
    put(log, name, [{"value": b"no key"}] * 5)
    found = by_key(log, name, "17", Decoder(log))
    assert [r.key for r in found.page.records] == [stored]
    exact = by_key(log, name, stored, Decoder(log))
    assert exact.page.records == found.page.records


def test_the_plain_way_finds_the_same(log, topic, monkeypatch):
    name = topic(2)
    put(log, name, [{"key": b"%d" % (i % 9), "value": b"%d" % i} for i in range(100)])
    quick = by_key(log, name, "4", Decoder(log))

    monkeypatch.setattr(
        "headwater.browse.key_reader.is_avro", lambda key: True
    )  # whose forms nobody knows
    plain = by_key(log, name, "4", Decoder(log))
    assert plain.page.records == quick.page.records
    assert len(plain.page.records) == 11


def test_a_search_for_a_key_is_bounded_and_goes_on(log, topic):
    name = topic(2)
    put(log, name, [{"key": b"%d" % (i % 50), "value": b"%d" % i} for i in range(400)])
    found = by_key(log, name, "7", Decoder(log), bounds=Bounds(scanned_max=50))
    values = [r.value for r in found.page.records]
    for _ in range(20):
        if found.page.next is None:
            break
        assert found.page.is_cut
        place = Place(cursor=found.page.next)
        found = by_key(log, name, "7", Decoder(log), place, bounds=Bounds(scanned_max=50))
        values += [r.value for r in found.page.records]
    assert values == [b"%d" % i for i in range(357, 0, -50)]


def test_the_state_of_a_key_is_folded_up_to_a_moment(log, topic):
    name = topic(3)
    for status in ("new", "paid", "sent"):
        publish(log, name, Draft(b"17", b'{"status": "%s"}' % status.encode()))
    assert state_of(log, name, "17").row == {"status": "sent"}
    before = state_of(log, name, "17", "1")
    assert before.row == {"status": "paid"}
    assert [each.op for each in before.changes] == ["put", "put"]


def test_topics_are_listed_with_offsets_bytes_and_settings(log, topic):
    name = topic(2, cleanup_policy="compact,delete", retention_ms=5000, retention_bytes=10**9)
    put(log, name, [{"value": b"x" * 1000, "key": b"k", "partition": 1}])
    found = named(log, name)
    assert [(p.number, p.first_offset, p.next_offset) for p in found.partitions] == [
        (0, 0, 0),
        (1, 0, 1),
    ]
    assert found.offsets == 1
    assert found.bytes is not None and found.bytes > 100
    assert (found.is_compacted, found.retention_ms, found.retention_bytes) == (True, 5000, 10**9)
    assert found.settings["retention.ms"].is_own
    assert not found.settings["segment.bytes"].is_own
    assert found in listed(log)
    assert all(each.settings == {} for each in listed(log, details=False))
