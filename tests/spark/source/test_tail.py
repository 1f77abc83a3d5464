"""The end of topics, followed on the driver: read once for everybody who is near it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer

from headwater.spark.source.arrival import Arrival
from headwater.spark.source.position import offsets
from headwater.spark.source.tail import Newer, Piece, RangeReader, Tail
from tests.compat.cluster import Cluster
from tests.spark.source.reading import produce
from tests.spark.source.test_positions import delete

SCHEMA = pa.schema([("value", pa.binary()), ("partition", pa.int32()), ("offset", pa.int64())])


def options(bootstrap: str, topic: str, **more: str) -> dict[str, str]:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    return {**given, "startingOffsets": "earliest", "columns": "value,partition,offset", **more}


def send(bootstrap: str, topic: str, values: range) -> None:
    produce(bootstrap, topic, [str(value) for value in values])


def values(pieces: Any) -> list[int]:
    return sorted(
        int(value)
        for piece in pieces
        for batch in piece.records
        for value in batch.column("value").to_pylist()
    )


def test_who_is_near_the_end_shares_what_was_read_and_who_is_not_reads_apart(
    cluster: Cluster, topic: str
):
    bootstrap = cluster.bootstrap
    cluster.create_topic(topic)
    send(bootstrap, topic, range(3))
    tail = Tail(options(bootstrap, topic), SCHEMA)
    reader = RangeReader(options(bootstrap, topic), SCHEMA)
    start = reader.initial()
    assert tail.newer(start) is None  # nobody has come to the end yet
    end = reader.end_after(start)
    assert end is not None
    assert sum(batch.num_rows for batch in reader.records(start, end)) == 3
    tail.begin(end)
    assert tail.newer(start) is None  # what lies before is not kept
    nothing = tail.newer(end)
    assert nothing is not None and offsets(nothing.end) == offsets(end) and not nothing.pieces

    send(bootstrap, topic, range(3, 5))
    one = tail.newer(end)
    send(bootstrap, topic, range(5, 6))
    other = tail.newer(end)
    assert one is not None and other is not None
    assert values(one.pieces) == [3, 4] and values(other.pieces) == [3, 4, 5]
    assert other.pieces[0] is one.pieces[0]
    again = tail.newer(one.end)
    assert again is not None and values(again.pieces) == [5]
    assert offsets(again.end) == offsets(other.end)


def test_of_pieces_at_the_end_only_so_many_are_kept_however_small_they_are(
    cluster: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("headwater.spark.source.tail.KEPT_PIECES", 3)
    bootstrap = cluster.bootstrap
    cluster.create_topic(topic)
    send(bootstrap, topic, range(1))
    tail = Tail(options(bootstrap, topic), SCHEMA)
    reader = RangeReader(options(bootstrap, topic), SCHEMA)
    ends = [reader.end_after(reader.initial())]
    assert ends[0] is not None
    tail.begin(ends[0])
    for n in range(1, 6):
        send(bootstrap, topic, range(n, n + 1))
        found = tail.newer(ends[-1])
        assert found is not None and values(found.pieces) == [n]
        ends.append(found.end)
    assert tail.newer(ends[1]) is None  # it reads by itself
    kept = tail.newer(ends[2])
    assert kept is not None and values(kept.pieces) == [3, 4, 5]


def test_what_is_newer_says_when_its_oldest_record_was_written_unless_some_are_from_before():
    def piece(begin: int, *stamps: int) -> Piece:
        made = pa.record_batch({"timestamp": pa.array(stamps, pa.timestamp("us", "UTC"))})
        return Piece({("o", 0): begin}, {("o", 0): begin + len(stamps)}, [made])

    both = Newer({}, (piece(3, 9_000, -7_001), piece(5, 8_000), piece(6)))
    assert both.oldest_ms({("o", 0): 3}) == -8
    assert both.oldest_ms({("o", 0): 4}) is None
    assert Newer({}, ()).oldest_ms({("o", 0): 4}) is None


def test_a_batch_has_no_more_records_than_the_source_allows(cluster: Cluster, topic: str):
    bootstrap = cluster.bootstrap
    cluster.create_topic(topic)
    tail = Tail(options(bootstrap, topic, maxOffsetsPerTrigger="4"), SCHEMA)
    place = RangeReader(options(bootstrap, topic), SCHEMA).initial()
    tail.begin(place)
    first = place
    for n in range(5):
        send(bootstrap, topic, range(3 * n, 3 * n + 3))
        found = tail.newer(place)
        assert found is not None
        place = found.end
    slow, taken = first, []
    while offsets(slow) != offsets(place):
        found = tail.newer(slow)
        assert found is not None
        assert sum(piece.count for piece in found.pieces) <= 4
        taken += values(found.pieces)
        slow = found.end
    assert sorted(taken) == list(range(15))


@pytest.mark.parametrize("count", [2, 7])
def test_a_topic_that_was_made_again_is_no_business_of_the_tail(
    log: Cluster, topic: str, count: int
):
    bootstrap = log.bootstrap
    log.create_topic(topic)
    send(bootstrap, topic, range(2))
    given = options(bootstrap, topic, failOnDataLoss="false")
    tail, reader = Tail(given, SCHEMA), RangeReader(given, SCHEMA)
    end = reader.end_after(reader.initial())
    assert end is not None
    tail.begin(end)
    delete(log, topic)
    log.create_topic(topic)
    send(bootstrap, topic, range(count))
    assert tail.newer(end) is None
    fresh = reader.end_after(end)
    assert fresh is not None
    assert sum(batch.num_rows for batch in reader.records(end, fresh)) == count
    assert reader.end_after(fresh) is None


def test_who_waits_goes_on_when_a_record_comes(cluster: Cluster, topic: str):
    bootstrap = cluster.bootstrap
    cluster.create_topic(topic)
    tail = Tail(options(bootstrap, topic), SCHEMA)
    place = RangeReader(options(bootstrap, topic), SCHEMA).initial()
    tail.begin(place)
    found: list[Any] = []
    never = threading.Event()

    def follow() -> None:
        while True:
            newer = tail.newer(place)
            assert newer is not None
            if newer.pieces:
                found.append(values(newer.pieces))
                return
            tail.wait(place, never)

    threads = [threading.Thread(target=follow) for _ in range(3)]
    for thread in threads:
        thread.start()
    send(bootstrap, topic, range(1))
    for thread in threads:
        thread.join(60)
    assert found == [[0]] * 3


def test_who_waits_hears_of_a_record_and_of_half_a_second_without_one(cluster: Cluster, topic: str):
    """Also in a partition that was not there when it first waited."""
    bootstrap, stopped = cluster.bootstrap, threading.Event()
    cluster.create_topic(topic)
    reader = RangeReader(options(bootstrap, topic), SCHEMA)
    arrival = Arrival(reader.stream.options.client, reader.stream.options.isolation)
    assert not arrival.wait({(topic, 0): 0}, stopped)
    with ThreadPoolExecutor(2) as others:  # one of them asks, for both
        waiting = [others.submit(arrival.wait, {(topic, 0): 0}, stopped) for _ in range(2)]
        send(bootstrap, topic, range(1))
        for each in waiting:
            each.result(30)
    assert arrival.wait({(topic, 0): 0}, stopped)
    assert not arrival.wait({(topic, 0): 1}, stopped)
    cluster.grow_topic(topic, 2)
    produce(bootstrap, topic, [{"value": "new", "partition": 1}])
    assert arrival.wait({(topic, 0): 1, (topic, 1): 0}, stopped)
    arrival.close()


def test_a_query_that_joins_the_tail_never_goes_back(cluster: Cluster, topic: str):
    # pieces   0: 0─10   0: 10─20   …   then 1: 0─10   1: 10─20   …
    # joins    0: 0─5, 1: 0─5 by itself: further in 1 than the pieces of 0 say
    bootstrap = cluster.bootstrap
    cluster.create_topic(topic, partitions=2)
    limited = options(bootstrap, topic, maxOffsetsPerTrigger="10")
    tail, own = Tail(limited, SCHEMA), RangeReader(limited, SCHEMA)
    start = first = own.initial()
    tail.begin(start)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for partition in (0, 1):
        for value in range(30):
            producer.produce(topic, str(value), partition=partition)
        assert producer.flush(30) == 0
        for _ in range(3):
            newer = tail.newer(first)
            assert newer is not None
            first = newer.end
    second = own.end_after(start)
    while second is not None and offsets(second) != offsets(first):
        newer = tail.newer(second)
        assert newer is not None
        then, now = offsets(second), offsets(newer.end)
        assert all(now[place] >= offset for place, offset in then.items()), (then, now)
        assert now != then
        second = newer.end
