"""The batches of a partition: what is committed, what is not, what is gone."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import TopicPartition

from headwater.client import batches, ranges
from headwater.client.cluster import READ_COMMITTED, READ_UNCOMMITTED
from headwater.client.errors import NotThere
from headwater.client.log import Log
from tests.client.conftest import put, until


def transactions(log: Log, topic: str, seed: int) -> None:
    """Several producers whose transactions overlap, some of them aborted, beside one without any."""
    chance = random.Random(seed)
    producers = [log.new_producer(transactional_id=f"{topic}-{n}", linger_ms=0) for n in range(3)]
    for each in producers:
        each.init_transactions()
        each.begin_transaction()
    for n in range(60):
        each = chance.choice(producers)
        for m in range(chance.randint(1, 4)):
            each.produce(topic, value=f"{n}.{m}".encode() * chance.randint(1, 30), partition=0)
        each.flush()
        if chance.random() < 0.4:
            (each.commit_transaction if chance.random() < 0.5 else each.abort_transaction)()
            each.begin_transaction()
        if chance.random() < 0.3:
            put(log, topic, [{"value": f"plain {n}".encode()}])
    for each in producers:
        each.abort_transaction()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("bytes_max", [200, 4 << 20])
def test_what_is_read_is_what_a_consumer_is_shown(log, topic, seed, bytes_max):
    name = topic()
    transactions(log, name, seed)
    end = log.ranges(name)[0][1]
    shown = [record for found in ranges.read(log, name, {0: (0, end)}) for record in found]
    with log.cluster() as cluster:
        found = [
            record
            for batch in batches.read(cluster, (name, 0), 0, end, bytes_max=bytes_max)
            if batch.is_data
            for record in batch.records()
        ]
    assert [(r.offset, r.value) for r in found] == [(r.offset, r.value) for r in shown]
    assert shown


def test_a_range_begins_and_ends_inside_batches(log, topic):
    name = topic()
    put(log, name, [{"value": b"%d" % n} for n in range(100)], linger_ms=200)
    with log.cluster() as cluster:
        found = [
            r.offset for some in batches.read_records(cluster, (name, 0), 17, 61) for r in some
        ]
    assert found == list(range(17, 61))


def test_an_offset_that_is_gone_is_named(log, topic):
    name = topic()
    put(log, name, [{"value": b"%d" % n} for n in range(10)])
    log.admin.delete_records([TopicPartition(name, 0, 5)])[TopicPartition(name, 0, 5)].result()
    with log.cluster() as cluster:
        with pytest.raises(NotThere, match=f"{name}-0 has no offset 2 any more"):
            list(batches.read(cluster, (name, 0), 2, 10))
        left = [r.offset for some in batches.read_records(cluster, (name, 0), 5, 10) for r in some]
    assert left == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("isolation", [READ_COMMITTED, READ_UNCOMMITTED])
def test_a_range_in_which_compaction_left_nothing_is_empty(log, topic, isolation):
    name = topic(cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, segment_bytes=1 << 20)
    for n in range(20):
        put(log, name, [{"key": b"k", "value": b"%d" % n * 100_000}])
    until(lambda: _first_left(log, name) > 5, "the compaction")
    with log.cluster() as cluster:
        found = list(batches.read(cluster, (name, 0), 0, _first_left(log, name), isolation))
    assert not any(batch.records() for batch in found)


def _first_left(log: Log, name: str) -> int:
    held = log.ranges(name)
    return next(record.offset for some in ranges.read(log, name, held) for record in some)
