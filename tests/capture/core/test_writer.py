"""Records and position go into the log together, whoever dies when."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from headwater import testing
from headwater.broker.broker import Broker
from headwater.capture.change import EVERY_PARTITION, Batch, Record, begins_again
from headwater.capture.errors import CaptureFenced
from headwater.capture.positions import read_positions
from headwater.capture.writer import Writer
from tests.capture.core.reading import read


@pytest.fixture(scope="module")
def log() -> Iterator[Broker]:
    with testing.broker() as running:
        yield running


def test_a_new_capture_has_no_position_and_then_the_last_that_was_written(log: Broker) -> None:
    first = Writer("plain", log.bootstrap)
    assert first.open() is None
    first.ensure_topics(["plain.rows"], {}, 2)
    for n in range(3):
        first.write(Batch({"n": n}, [("plain.rows", b"1", b'{"n":%d}' % n)], 1))
    first.close()

    second = Writer("plain", log.bootstrap)
    assert second.open() == {"n": 2}
    assert [record.value["n"] for record in read(log.bootstrap, "plain.rows")] == [0, 1, 2]
    assert read_positions(log.bootstrap, ["plain", "other"])["plain"]["position"] == {"n": 2}
    second.forget()
    second.close()
    third = Writer("plain", log.bootstrap)
    assert begins_again(third.open())
    third.close()


def test_a_position_of_many_tables_is_found_again_behind_thousands_of_others(log: Broker) -> None:
    tables = {f"public.t{n}": n for n in range(1000)}
    writer = Writer("large", log.bootstrap)
    writer.open()
    writer.write(Batch({"n": 0, "tables": tables}))
    for n in range(1, 30):
        writer.write(Batch({"n": n, "tables": {**tables}}))
    writer.close()
    other = Writer("noisy", log.bootstrap)
    other.open()
    for n in range(1200):
        other.write(Batch({"n": n}))
    other.close()
    again = Writer("large", log.bootstrap)
    assert again.open() == {"n": 29, "tables": tables}
    again.close()


def test_the_younger_of_two_writers_fences_the_elder(log: Broker) -> None:
    elder, younger = Writer("twice", log.bootstrap), Writer("twice", log.bootstrap)
    elder.open()
    elder.ensure_topics(["twice.rows"], {}, 1)
    elder.write(Batch({"n": 1}, [("twice.rows", b"1", b"1")], 1))
    assert younger.open() == {"n": 1}
    with pytest.raises(CaptureFenced):
        elder.write(Batch({"n": 2}, [("twice.rows", b"1", b"2")], 1))
    younger.write(Batch({"n": 3}, [("twice.rows", b"1", b"3")], 1))
    assert [record.value for record in read(log.bootstrap, "twice.rows")] == [1, 3]
    elder.close()
    younger.close()


KILLED = """
import os, sys
from headwater.capture.change import Batch
from headwater.capture.positions import POSITIONS
from headwater.capture.writer import Writer
writer = Writer("killed", sys.argv[1])
position = writer.open() or {"n": 0}
writer.ensure_topics(["killed.rows"], {}, 2)
n = position["n"]
writer.write(Batch({"n": n + 1}, [("killed.rows", b"%d" % n, b"%d" % n)], 1))
writer._bulk.begin()
writer._put(writer._bulk, [("killed.rows", b"%d" % i, b"-1") for i in range(50)])
writer._bulk.put(POSITIONS, b"killed", b'{"position":{"n":-1}}', None, 0)
writer._bulk._producer.flush(60)
os.kill(os.getpid(), 9)
"""


OF_FEW = """
small = writer._small
assert small.takes([("killed.rows", b"1", b"-1")])
left = [("killed.rows", b"1", b"-1"), (POSITIONS, b"killed", b'{"position":{"n":-1}}', None, 0)]
assert small._produce(small._batches(left))
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("size", ["many", "few"])
def test_what_a_killed_writer_left_open_is_neither_seen_nor_taken_for_its_position(
    log: Broker, size: str
) -> None:
    program = KILLED if size == "many" else KILLED.partition("writer._bulk.begin")[0] + OF_FEW
    name = f"killed-{size}"
    for _ in range(2):
        words = [sys.executable, "-c", program.replace("killed", name), log.bootstrap]
        assert subprocess.run(words, timeout=60).returncode == -9
    writer = Writer(name, log.bootstrap)
    assert writer.open() == {"n": 2}
    writer.close()
    assert sorted(r.value for r in read(log.bootstrap, f"{name}.rows")) == [0, 1]


@pytest.mark.parametrize("count", [1, 1_000])
def test_an_elder_writer_is_fenced_whatever_the_size_of_its_batch(log: Broker, count: int) -> None:
    name = f"elder{count}"
    elder, younger = Writer(name, log.bootstrap), Writer(name, log.bootstrap)
    elder.open()
    elder.ensure_topics([f"{name}.rows"], {}, 1)
    younger.open()
    with pytest.raises(CaptureFenced):
        elder.write(Batch({"n": 2}, [(f"{name}.rows", b"1", b"2")] * count, count))
    elder.close()
    younger.close()
    assert read(log.bootstrap, f"{name}.rows") == []


def test_batches_of_few_and_of_many_rows_come_in_their_order(log: Broker) -> None:
    writer = Writer("sizes", log.bootstrap)
    writer.open()
    writer.ensure_topics(["sizes.rows"], {}, 1)
    wanted: list[int] = []
    for n, count in enumerate((1, 500, 2, 1, 300, 300, 1)):
        rows = [n * 1_000 + number for number in range(count)]
        writer.write(Batch({"n": n}, [("sizes.rows", b"1", b"%d" % row) for row in rows], count))
        wanted += rows
    writer.close()
    assert [record.value for record in read(log.bootstrap, "sizes.rows")] == wanted


def test_a_key_stays_in_one_partition_whatever_the_size_of_its_batch_when_a_topic_grows(
    log: Broker,
) -> None:
    writer = Writer("grown", log.bootstrap)
    writer.open()
    writer.ensure_topics(["grown.rows"], {}, 1)
    n = 0

    def write(count: int) -> None:
        nonlocal n
        rows = [("grown.rows", b"%d" % (row % 20), b"%d" % (n + row)) for row in range(count)]
        writer.write(Batch({"n": n}, rows, count))
        n += count

    write(40)
    write(200)
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    admin.create_partitions([NewPartitions("grown.rows", 7)])["grown.rows"].result(30)
    write(200)
    assert writer._bulk is not None and writer._small is not None
    writer._bulk._producer.list_topics("grown.rows", timeout=30)  # by itself
    writer._small._leaders = None  # as after an error
    write(40)
    write(200)
    write(40)
    for known in range(2):
        if known:
            writer._bulk._known["grown.rows"] = (1, 0.0)  # asked long ago
        write(200)
        write(40)
    writer.close()
    found = sorted(read(log.bootstrap, "grown.rows"), key=lambda record: record.value)
    assert [record.value for record in found] == list(range(n))
    for key in range(20):
        places = [record.partition for record in found if record.key == key]
        moves = sum(one != other for one, other in itertools.pairwise(places))
        assert moves <= 1, f"{key} lay in {places}"
    assert len({record.partition for record in found[-40:]}) > 3


@pytest.mark.parametrize("count", [4, 400])
def test_where_a_key_lies_changes_between_two_batches_and_never_within_one(
    log: Broker, count: int
) -> None:
    """Readers order a key's records in two partitions by their times: those of one batch have one."""
    name = f"settled{count}"
    topic = f"{name}.rows"
    writer = Writer(name, log.bootstrap)
    writer.open()
    writer.ensure_topics([topic], {}, 1)

    def rows(first: int) -> list[Record]:
        return [(topic, b"%d" % (n % 4), b"%d" % n) for n in range(first, first + count)]

    writer.write(Batch({"n": 1}, rows(0), count))
    admin = AdminClient({"bootstrap.servers": log.bootstrap})
    admin.create_partitions([NewPartitions(topic, 7)])[topic].result(30)
    truncate = (topic, None, b'"t"', None, EVERY_PARTITION)
    writer.write(Batch({"n": 2}, [*rows(1_000), truncate, *rows(2_000)], 2 * count + 1))
    writer.close()
    found = [record for record in read(log.bootstrap, topic) if record.key is not None]
    places: dict[int, set[int]] = {}
    for record in found:
        if record.value >= 1_000:
            places.setdefault(record.key, set()).add(record.partition)
    assert len(places) == 4
    assert {len(each) for each in places.values()} == {1}, places
    before = max(record.timestamp_ms for record in found if record.value < 1_000)
    assert before < min(record.timestamp_ms for record in found if record.value >= 1_000)


def test_a_record_for_every_partition_is_in_each_of_them_once(log: Broker) -> None:
    writer = Writer("all", log.bootstrap)
    writer.open()
    writer.ensure_topics(["all.rows"], {}, 3)
    writer.write(Batch({}, [("all.rows", None, b'"t"', None, EVERY_PARTITION)], 0))
    writer.close()
    found = [record.partition for record in read(log.bootstrap, "all.rows")]
    assert sorted(found) == [0, 1, 2]


def test_a_record_for_every_partition_that_overfills_the_queue_is_in_each_of_them_once(
    log: Broker,
) -> None:
    """The queue is full by bytes half-way through the partitions."""
    writer = Writer("large", log.bootstrap)
    writer.open()
    writer.ensure_topics(["large.rows"], {}, 90)
    value = json.dumps(random.Random(1).randbytes(400_000).hex()).encode()
    writer.write(Batch({}, [("large.rows", None, value, None, EVERY_PARTITION)], 0))
    writer.close()
    found = [record.partition for record in read(log.bootstrap, "large.rows")]
    assert sorted(found) == list(range(90))


def test_a_topic_is_given_room_for_a_large_record_and_what_is_above_the_bound_is_set_aside(
    log: Broker,
) -> None:
    writer = Writer("wide", log.bootstrap, record_bytes_max=6 << 20)
    writer.open()
    writer.ensure_topics(["wide.rows"], {}, 1)
    large = json.dumps(random.Random(1).randbytes(2_500_000).hex()).encode()
    rows = [("wide.rows", b"1", b"1"), ("wide.rows", b"2", large)]
    rows += [("wide.rows", b"3", large + b" " * 2_000_000), ("wide.rows", b"4", b"4")]
    writer.write(Batch({"lsn": 7, "schemas": {"a": "b"}}, list(rows), 4))
    (said,) = writer.take_said()
    assert "wide.rows" in said and "the row 3 was set aside in wide.dead-letters" in said
    writer.close()
    assert [len(str(one.value)) > 9 for one in read(log.bootstrap, "wide.rows")] == [
        False,
        True,
        False,
    ]
    (letter,) = read(log.bootstrap, "wide.dead-letters")
    headers = {name: value.decode() for name, value in letter.headers}
    assert letter.key == 3
    assert headers["__dlq.errors.topic"] == "wide.rows"
    assert headers["__dlq.errors.position"] == '{"lsn": 7}'
    assert int(headers["__dlq.errors.cut"]) > 6 << 20


def test_the_captures_own_settings_say_how_large_a_record_a_topic_takes(log: Broker) -> None:
    fixed = {"max.message.bytes": "1048588"}
    writer = Writer("narrow", log.bootstrap, topic_config=fixed)
    writer.open()
    writer.ensure_topics(["narrow.rows"], fixed, 1)
    writer.write(Batch({}, [("narrow.rows", b"1", b"1" * 2_000_000)], 1))
    writer.close()
    assert read(log.bootstrap, "narrow.rows") == []
    assert [one.key for one in read(log.bootstrap, "narrow.dead-letters")] == [1]
