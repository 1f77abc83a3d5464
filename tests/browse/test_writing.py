"""Publish, replay, follow: what is written is what is read."""

from __future__ import annotations

import random
import signal
import subprocess
import sys

import pytest
from confluent_kafka import TopicPartition

from headwater.browse.pages import page
from headwater.browse.replay import plan, replay
from headwater.client import ranges as reading
from headwater.client.errors import BadRequest, NotThere, OutcomeUnknown, RequestRefused
from headwater.client.log import Log
from headwater.client.outcome import Outcome, outcome_of
from headwater.client.partitioner import by_murmur2
from headwater.client.places import parse
from headwater.client.publisher import Draft, Sender, publish
from headwater.client.tail import follow
from headwater.testing import broker
from tests.browse.conftest import make_topic, put, until
from tests.browse.muted import END_TXN, Muted

T0 = 1_700_000_000_000
LARGE = random.Random(1).randbytes(5000)
"""More than some topics here take, and not to be compressed."""


def contents(log, topic: str) -> list[tuple]:
    found = [r for some in reading.read(log, topic, log.ranges(topic)) for r in some]
    found.sort(key=lambda r: (r.partition, r.offset))
    return [(r.partition, r.key, r.value, r.headers, r.timestamp_ms) for r in found]


def test_one_record_is_stored_with_all_that_it_has(log, topic):
    name = topic(4, retention_ms=-1)
    headers = (("a", b"\xff"), ("a", None), ("", b""))
    stored = publish(log, name, Draft(b"k", b"v", headers, timestamp_ms=T0))
    assert stored == (by_murmur2(b"k", 4), 0)
    assert publish(log, name, Draft(None, None, partition=3)).partition == 3
    assert contents(log, name)[0] == (stored.partition, b"k", b"v", headers, T0)
    assert contents(log, name)[-1][1:3] == (None, None)
    with pytest.raises(NotThere, match="there is no topic"):
        publish(log, "nowhere", Draft(None, b"v"))
    with pytest.raises(NotThere, match="has no partition 4"):
        publish(log, name, Draft(None, b"v", partition=4))
    assert "nowhere" not in log.admin.list_topics(timeout=60).topics


def test_what_the_broker_refuses_is_said(log, topic):
    name = topic(max_message_bytes=1000)
    with pytest.raises(RequestRefused) as caught:
        publish(log, name, Draft(None, LARGE))
    assert "max.message.bytes" in (caught.value.hint or "")
    refused: list[int] = []
    with Sender(log, name, lambda tag, _why: refused.append(tag)) as sender:
        for number in range(10):
            sender.send(Draft(None, LARGE if number == 5 else b"small"), number)
            sender.flush()
    assert refused == [5]
    assert sender.stored == 9


def test_a_replay_keeps_everything_and_the_partition(log, topic):
    source, target = topic(3, retention_ms=-1), topic(3, retention_ms=-1)
    rows = [
        {
            "key": b"k%d" % i,
            "value": None if i % 10 == 0 else b"v%d" % i,
            "headers": [("n", b"%d" % i)],
            "partition": i % 3,
            "timestamp": T0 + i,
        }
        for i in range(300)
    ]
    put(log, source, rows)
    told: list[tuple[int, int, int]] = []
    done = replay(log, plan(log, source, target), progress=lambda *all_: told.append(all_))
    assert done.records == 300
    assert told[-1] == (300, 300, 300)
    assert contents(log, target) == contents(log, source)
    with pytest.raises(BadRequest, match="into itself"):
        plan(log, source, source)


def test_a_replay_takes_a_range_a_filter_and_other_partitions(log, topic):
    source, target = topic(3, retention_ms=-1), topic(2, retention_ms=-1)
    rows = [{"key": b"k%d" % i, "partition": i % 3, "timestamp": T0 + i} for i in range(90)]
    put(log, source, rows)
    chosen = plan(log, source, target, parse("10"), parse("20"))
    assert chosen.offsets == 30
    done = replay(log, chosen, lambda r: r.offset != 15, batch=4)
    assert done.records == 27
    found = contents(log, target)
    assert sorted(each[4] - T0 for each in found) == [i for i in range(30, 60) if i // 3 != 15]
    assert all(each[0] == by_murmur2(each[1], 2) for each in found)


def test_a_replay_that_fails_leaves_nothing(log, topic):
    source, target = topic(), topic(max_message_bytes=1000)
    put(log, source, [{"value": b"small"}] * 50)
    put(log, source, [{"value": LARGE}])
    with pytest.raises(RequestRefused, match="nothing was replayed"):
        replay(log, plan(log, source, target))
    assert contents(log, target) == []


@pytest.mark.parametrize("is_committed", [True, False])
def test_the_log_says_what_became_of_a_commit_that_was_not_answered(log, topic, is_committed):
    target, name = topic(), f"outcome {is_committed}"
    put(log, target, [{"value": b"before"}])
    producer = log.new_producer(transactional_id=name)
    producer.init_transactions(30)
    producer.begin_transaction()
    places = []
    producer.produce(target, b"v", on_delivery=lambda _, message: places.append(message.offset()))
    producer.flush(30)
    if is_committed:
        producer.commit_transaction(30)
    put(log, target, [{"value": b"behind"}])

    def fence() -> None:
        log.new_producer(transactional_id=name).init_transactions(30)

    found = outcome_of(log, fence, TopicPartition(target, 0, places[0]))
    assert found is (Outcome.COMMITTED if is_committed else Outcome.ABORTED)
    assert len(contents(log, target)) == (3 if is_committed else 2)


def test_a_commit_that_was_done_but_not_answered_is_not_told_as_nothing():
    with (
        Muted(END_TXN) as wire,
        broker(listen=None, settings=wire.settings),
        Log(wire.address) as log,
    ):
        source, target = make_topic(log), make_topic(log)
        put(log, source, [{"value": b"%d" % i} for i in range(30)])
        with pytest.raises(OutcomeUnknown) as caught:
            replay(log, plan(log, source, target))
        assert "whether the last 30 were is not known" in str(caught.value)
        assert f"headwater tail {target} --from 0=" in (caught.value.hint or "")
        wire.mend()
        until(lambda: len(contents(log, target)) == 30, "what was committed")


@pytest.mark.parametrize("batch", [(), ("--batch", "10")])
def test_what_was_committed_when_ctrl_c_came_is_told(batch):
    with (
        Muted(END_TXN) as wire,
        broker(listen=None, settings=wire.settings),
        Log(wire.address) as log,
    ):
        source, target = make_topic(log), make_topic(log)
        put(log, source, [{"value": b"%d" % i} for i in range(30)])
        words = ["replay", source, target, *batch, "--bootstrap", wire.address]
        with subprocess.Popen(
            [sys.executable, "-m", "headwater", *words], stdout=-1, stderr=-1, text=True
        ) as run:
            until(lambda: wire.is_silent or run.poll() is not None, "the commit")
            run.send_signal(signal.SIGINT)
            wire.mend()
            said, complaint = run.communicate(timeout=60)
        count = len(contents(log, target))
        if batch:
            assert count == 10
            assert "10 records were replayed before; go on with --from 0=10" in complaint
        else:
            assert count == 30
            assert said.startswith("30 records replayed from"), (said, complaint)


def test_a_replay_in_batches_says_where_to_go_on(log, topic):
    source, target = topic(), topic(max_message_bytes=1000)
    put(log, source, [{"value": b"small"}] * 50)
    put(log, source, [{"value": LARGE}])
    with pytest.raises(RequestRefused, match="40 records were replayed before") as caught:
        replay(log, plan(log, source, target), batch=20)
    assert caught.value.hint == "go on with --from 0=40"
    assert len(contents(log, target)) == 40


def test_a_tail_shows_what_comes_after_its_start(log, topic):
    name = topic(2)
    put(log, name, [{"value": b"old", "partition": 0}, {"value": b"old", "partition": 1}])
    start = page(log, name, back=True).ends
    put(log, name, [{"value": b"%d" % i, "partition": i % 2} for i in range(10)])
    seen: set[bytes | None] = set()
    for records in follow(log, name, start, keep=lambda r: r.value != b"3"):
        seen |= {r.value for r in records}
        if len(seen) == 9:
            break
    assert seen == {b"%d" % i for i in range(10)} - {b"3"}
