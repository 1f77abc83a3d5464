"""Fetch sessions: what did not change is left out, nobody starves, and slots are bounded."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from headwater.testing import ManualClock
from tests.broker.serving import create, delete, serving
from tests.compat.asking import produce
from tests.compat.batches import NOW_MS, batch, read_batches
from tests.compat.wire import ErrorCode, Wire

SIZE = 1000
RECORD = batch([(None, bytes(SIZE))])


class Reader:
    """A consumer with a session, which says only what is new, as clients do."""

    def __init__(self, wire: Wire, topic: str, partitions: Iterable[int], **limits: int) -> None:
        self.wire, self.topic = wire, topic
        self.positions = dict.fromkeys(partitions, 0)
        self.session, self.epoch = 0, 0
        self.limits = {"max_wait": 1, "min_bytes": 1, "max_bytes": 10_000_000, **limits}
        self._changed = set(self.positions)
        self.seen: Counter[int] = Counter()

    def ask(self, forget: Iterable[int] = (), **changes: Any) -> Any:
        wanted = [
            {
                "partition": each,
                "fetch_offset": self.positions[each],
                "partition_max_bytes": 1_000_000,
            }
            for each in sorted(self._changed)
        ]
        gone = [{"topic": self.topic, "partitions": list(forget)}]
        values = {
            "replica_id": -1,
            "session_id": self.session,
            "session_epoch": self.epoch,
            "topics": [{"topic": self.topic, "partitions": wanted}] if wanted else [],
            "forgotten_topics_data": gone if forget else [],
            **self.limits,
            **changes,
        }
        return self.wire.ask("fetch", 12, **values)

    def poll(self, **changes: Any) -> dict[int, Any]:
        """One round; returns the rows that the answer has, by partition."""
        answer = self.ask(**changes)
        assert answer.error_code is ErrorCode.none, answer.error_code
        self.session = answer.session_id
        self.epoch = self.epoch + 1 if self.session else 0
        rows = {part.partition_index: part for each in answer.responses for part in each.partitions}
        self._changed = set() if self.session else set(self.positions)
        for number, row in rows.items():
            for each in read_batches(row.records):
                assert each.base_offset == self.positions[number]
                self.positions[number] = each.last_offset + 1
                self._changed.add(number)
                self.seen[number] += each.count
        return rows


def put(wire: Wire, topic: str, partition: int, count: int = 1) -> None:
    for _ in range(count):
        produce(wire, topic, RECORD, partition=partition)


def test_what_did_not_change_is_left_out(wire: Wire, topic: str) -> None:
    create(wire, topic, 5)
    reader = Reader(wire, topic, range(5))
    assert set(reader.poll()) == {0, 1, 2, 3, 4}, "the first answer is complete"
    assert reader.session > 0
    assert reader.poll() == {}
    put(wire, topic, 3)
    rows = reader.poll()
    assert list(rows) == [3]
    assert rows[3].high_watermark == 1
    assert reader.poll() == {}
    rows_before = [{"partition_index": 1, "offset": 0}, {"partition_index": 3, "offset": 1}]
    topics = [{"name": topic, "partitions": rows_before}]
    wire.ask("delete_records", 2, topics=topics, timeout=9000)
    assert list(reader.poll()) == [3], "a start that moved is news"


def test_a_forgotten_partition_is_served_no_more_and_may_come_back(wire: Wire, topic: str) -> None:
    create(wire, topic, 3)
    reader = Reader(wire, topic, range(3))
    reader.poll()
    reader.poll(forget=[1])
    for partition in range(3):
        put(wire, topic, partition)
    assert set(reader.poll()) == {0, 2}
    reader._changed.add(1)
    assert list(reader.poll()) == [1]


def test_no_partition_starves_behind_a_small_limit(wire: Wire, topic: str) -> None:
    """Room for two batches in each answer, and ten partitions that always have more."""
    create(wire, topic, 10)
    for partition in range(10):
        put(wire, topic, partition, 12)
    reader = Reader(wire, topic, range(10), max_bytes=2 * len(RECORD) + 100)
    for _ in range(30):
        reader.poll()
    assert reader.seen.total() >= 30
    assert min(reader.seen[partition] for partition in range(10)) >= 2, dict(reader.seen)
    assert max(reader.seen.values()) - min(reader.seen.values()) <= 6, dict(reader.seen)


def test_a_busy_partition_does_not_hide_a_quiet_one(wire: Wire, topic: str) -> None:
    create(wire, topic, 2)
    put(wire, topic, 0, 40)
    reader = Reader(wire, topic, range(2), max_bytes=3 * len(RECORD))
    reader.poll()
    put(wire, topic, 1)
    for _ in range(2):
        put(wire, topic, 0, 2)
        reader.poll()
    assert reader.seen[1], "it waited behind the busy one"


def test_sessions_under_load_give_each_record_once(data: Path) -> None:
    dice = random.Random(8)
    with serving(data) as broker:
        broker.create("t", 6)
        wires = [Wire(broker.bootstrap) for _ in range(8)]
        readers = [Reader(wire, "t", range(6), max_bytes=dice.choice((1, 5000))) for wire in wires]
        written: Counter[int] = Counter()
        with broker.wire() as producer:
            for _ in range(40):
                for _ in range(dice.randrange(4)):
                    partition = dice.randrange(6)
                    put(producer, "t", partition)
                    written[partition] += 1
                for reader in dice.sample(readers, 4):
                    reader.poll()
        for reader in readers:
            for _ in range(400):
                if reader.seen == written:
                    break
                reader.poll()
            assert reader.seen == written
            reader.wire.close()


def test_when_the_slots_are_used_up_readers_go_on_without_a_session(data: Path) -> None:
    clock = ManualClock(NOW_MS)
    settings = {"max.incremental.fetch.session.cache.slots": 2}
    with serving(data, settings, clock=clock) as broker:
        broker.create("t", 2)
        wires = [Wire(broker.bootstrap) for _ in range(4)]
        readers = [Reader(wire, "t", range(2)) for wire in wires]
        for reader in readers:
            reader.poll()
        assert [bool(reader.session) for reader in readers] == [True, True, False, False]
        with broker.wire() as producer:
            put(producer, "t", 0)
            put(producer, "t", 1)
        for reader in readers:
            reader.poll()
            assert dict(reader.seen) == {0: 1, 1: 1}
        clock.advance(121_000)
        readers[1].poll()
        readers[2].poll()
        assert readers[2].session, "the place of one that has been silent for two minutes"
        lost = readers[0].ask()
        assert lost.error_code is ErrorCode.fetch_session_id_not_found
        assert readers[1].poll() == {}, "the one in use stays"
        for wire in wires:
            wire.close()


def test_no_slots_means_no_sessions(data: Path) -> None:
    with serving(data, {"max.incremental.fetch.session.cache.slots": 0}) as broker:
        broker.create("t")
        with broker.wire() as wire:
            put(wire, "t", 0, 3)
            reader = Reader(wire, "t", [0])
            reader.poll()
            assert (reader.session, reader.seen[0]) == (0, 3)


@pytest.mark.parametrize("epoch", [1, 3, 77])
def test_a_wrong_epoch_is_refused_and_the_session_stays(wire: Wire, topic: str, epoch: int) -> None:
    create(wire, topic)
    reader = Reader(wire, topic, [0])
    reader.poll()
    reader.poll()
    if epoch != reader.epoch:
        refused = reader.ask(session_epoch=epoch)
        assert refused.error_code is ErrorCode.invalid_fetch_session_epoch
    put(wire, topic, 0)
    reader.poll()
    assert reader.seen[0] == 1


def test_an_ended_session_is_gone(wire: Wire, topic: str) -> None:
    create(wire, topic)
    reader = Reader(wire, topic, [0])
    reader.poll()
    assert reader.ask(session_epoch=-1).session_id == 0
    assert reader.ask().error_code is ErrorCode.fetch_session_id_not_found


def test_a_deleted_topic_in_a_session_is_told_each_time_and_harms_nobody(
    wire: Wire, topic: str
) -> None:
    create(wire, topic, 2)
    create(wire, f"{topic}-other")
    reader = Reader(wire, topic, range(2))
    reader.poll()
    delete(wire, topic)
    for _ in range(3):
        answer = reader.ask()
        reader.epoch += 1
        codes = {part.error_code for each in answer.responses for part in each.partitions}
        assert codes == {ErrorCode.unknown_topic_or_partition}
    other = Reader(wire, f"{topic}-other", [0])
    put(wire, f"{topic}-other", 0)
    other.poll()
    assert other.seen[0] == 1
