"""Records and position go into the log together, whoever dies when."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator

import pytest

from headwater import testing
from headwater.broker.broker import Broker
from headwater.capture.change import EVERY_PARTITION, Batch, begins_again
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
writer._producer.begin_transaction()
writer._produce(writer._producer, [("killed.rows", b"%d" % i, b"-1") for i in range(50)])
writer._producer.produce(POSITIONS, b'{"position":{"n":-1}}', b"killed", 0)
writer._producer.flush(10)
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_writer_left_open_is_neither_seen_nor_taken_for_its_position(
    log: Broker,
) -> None:
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", KILLED, log.bootstrap], timeout=60)
        assert done.returncode == -9
    writer = Writer("killed", log.bootstrap)
    assert writer.open() == {"n": 2}
    writer.close()
    assert sorted(r.value for r in read(log.bootstrap, "killed.rows")) == [0, 1]


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
