"""After a stop, and after a kill -9, the broker knows what it knew: the state is in the logs.

A copy of the folder of a running broker is what kill -9 leaves behind, without the cost of a process.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from headwater.broker.internal_topics import HEALTH
from tests.broker.processes import broker_process
from tests.broker.serving import Serving, create, delete, serving
from tests.compat.asking import (
    EARLIEST,
    LATEST,
    end_offset,
    fetch,
    new_producer_id,
    offset_at,
    produce,
    read_all,
)
from tests.compat.batches import batch, read_batches
from tests.compat.waiting import until
from tests.compat.wire import ConnectionClosed, ErrorCode, Wire

TOPIC, BROKER = 2, 4
either = pytest.mark.parametrize("how", ["stop", "kill"])


class Lives:
    """One broker after the other on the same data."""

    def __init__(self, folder: Path, how: str) -> None:
        self._data, self._how = folder / "0", how

    @contextmanager
    def next(self) -> Iterator[Serving]:
        with serving(self._data) as broker:
            yield broker
            data = self._data
            if self._how == "kill":
                data = data.with_name(f"{int(data.name) + 1}")
                shutil.copytree(self._data, data, ignore=shutil.ignore_patterns("*.tmp"))
        self._data = data


# ---- everything that a client can ask for -----------------------------------------------------------


def everything(wire: Wire) -> dict[str, Any]:
    """The broker's state as clients see it."""
    told = wire.ask("metadata", 12, topics=None).topics
    topics = [each for each in told if each.name != HEALTH]  # made, and written, when it is
    counts = {each.name: len(each.partitions) for each in topics}
    places = [(name, number) for name, count in counts.items() for number in range(count)]
    visible = [name for name in counts if not name.startswith("__")]
    return {
        "ids": {each.name: each.topic_id for each in topics},
        "partitions": counts,
        "configs": {name: configs(wire, TOPIC, name) for name in counts},
        "broker": {name: configs(wire, BROKER, name) for name in ("", "1")},
        "starts": {place: offset_at(wire, place[0], EARLIEST, place[1]).offset for place in places},
        "ends": {place: offset_at(wire, place[0], LATEST, place[1]).offset for place in places},
        "committed": committed(wire),
        "producers": {name: producers(wire, name, counts[name]) for name in visible},
        "cluster": wire.ask("describe_cluster", 1).cluster_id,
        "records": {name: records(wire, name) for name in visible},
    }


def configs(wire: Wire, kind: int, name: str) -> dict[str, str]:
    """Those that were set, not the defaults."""
    asked = {"resource_type": kind, "resource_name": name, "configuration_keys": None}
    found = wire.ask("describe_configs", 4, resources=[asked]).results[0]
    return {each.name: each.value for each in found.configs if each.config_source in (1, 2, 3)}


def committed(wire: Wire) -> dict[Any, Any]:
    groups = [{"group_id": group, "topics": None} for group in ("readers", "others")]
    answer = wire.ask("offset_fetch", 8, groups=groups)
    return {
        (group.group_id, topic.name, part.partition_index): (part.committed_offset, part.metadata)
        for group in answer.groups
        for topic in group.topics
        for part in topic.partitions
    }


def producers(wire: Wire, topic: str, count: int) -> Any:
    asked = [{"name": topic, "partition_indexes": list(range(count))}]
    found = wire.ask("describe_producers", 0, topics=asked).topics[0].partitions
    return {
        (part.partition_index, each.producer_id): (each.producer_epoch, each.last_sequence)
        for part in found
        for each in part.active_producers
    }


def records(wire: Wire, topic: str) -> Any:
    start = offset_at(wire, topic, EARLIEST).offset
    return [(each.base_offset, each.pairs) for each in read_all(wire, topic, start)]


# ---- and making some of each ------------------------------------------------------------------------


def set_config(wire: Wire, kind: int, name: str, key: str, value: str | None) -> None:
    change = {"name": key, "config_operation": 1 if value is None else 0, "value": value}
    asked = {"resource_type": kind, "resource_name": name, "configs": [change]}
    answer = wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=False)
    assert answer.responses[0].error_code is ErrorCode.none, answer


def commit(wire: Wire, group: str, topic: str, partition: int, offset: int) -> None:
    row = {"partition_index": partition, "committed_offset": offset, "committed_leader_epoch": -1}
    topics = [{"name": topic, "partitions": [{**row, "committed_metadata": f"at {offset}"}]}]
    alone = {"generation_id_or_member_epoch": -1, "member_id": ""}
    answer = wire.ask("offset_commit", 8, group_id=group, topics=topics, **alone)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def delete_records(wire: Wire, topic: str, offset: int) -> None:
    rows = [{"partition_index": 0, "offset": offset}]
    answer = wire.ask(
        "delete_records", 2, topics=[{"name": topic, "partitions": rows}], timeout=9000
    )
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def live(wire: Wire) -> None:
    """A bit of everything: created, changed, grown, deleted, written, committed, forgotten."""
    create(wire, "plain")
    create(wire, "tuned", 3, retention_ms=123_456_789, internal_segment_bytes=2000)
    create(wire, "gone", 2)
    create(wire, "grown")
    grown = {"name": "grown", "count": 4, "assignments": None}
    wire.ask("create_partitions", 3, topics=[grown], timeout=9000)
    delete(wire, "gone")
    set_config(wire, TOPIC, "tuned", "max.message.bytes", "500000")
    set_config(wire, TOPIC, "tuned", "retention.ms", None)
    set_config(wire, BROKER, "", "log.retention.ms", "987654321")
    set_config(wire, BROKER, "1", "log.cleaner.backoff.ms", "14000")
    producer, epoch = new_producer_id(wire)
    for number in range(12):
        produce(wire, "plain", batch([(b"key", b"value %d" % number)]))
        sent = batch([(None, bytes(400))] * 2, producer=(producer, epoch, 2 * number))
        produce(wire, "tuned", sent)
    delete_records(wire, "tuned", 9)
    delete_records(wire, "plain", 2)
    for offset in (3, 5):
        commit(wire, "readers", "plain", 0, offset)
    commit(wire, "others", "grown", 3, 0)


@either
def test_everything_is_as_it_was_before(tmp_path: Path, how: str) -> None:
    lives = Lives(tmp_path, how)
    with lives.next() as broker, broker.wire() as wire:
        live(wire)
        before = everything(wire)
    assert before["starts"]["tuned", 0] == 9
    assert before["broker"] == {
        "": {"log.retention.ms": "987654321"},
        "1": {"log.retention.ms": "987654321", "log.cleaner.backoff.ms": "14000"},
    }
    for again in range(2):
        with lives.next() as broker, broker.wire() as wire:
            after = everything(wire)
            for part in before:
                assert after[part] == before[part], f"{part}, start {again + 1}"


@either
def test_a_dynamic_default_still_reaches_the_topics(tmp_path: Path, how: str) -> None:
    lives = Lives(tmp_path, how)
    large = batch([(None, bytes(2000))])
    with lives.next() as broker, broker.wire() as wire:
        create(wire, "t")
        set_config(wire, BROKER, "", "message.max.bytes", "1000")
        assert produce(wire, "t", large).error_code is ErrorCode.message_too_large
    with lives.next() as broker, broker.wire() as wire:
        assert produce(wire, "t", large).error_code is ErrorCode.message_too_large
        set_config(wire, BROKER, "", "message.max.bytes", None)
        assert produce(wire, "t", large).error_code is ErrorCode.none


@either
def test_a_duplicate_is_still_known_and_a_gap_is_still_refused(tmp_path: Path, how: str) -> None:
    lives = Lives(tmp_path, how)
    with lives.next() as broker, broker.wire() as wire:
        create(wire, "t")
        producer, epoch = new_producer_id(wire)
        sent = [batch([(None, b"%d" % n)], producer=(producer, epoch, n)) for n in range(9)]
        offsets = [produce(wire, "t", each).base_offset for each in sent[:8]]
        assert offsets == list(range(8))
    with lives.next() as broker, broker.wire() as wire:
        gap = batch([(None, b"gap")], producer=(producer, epoch, 9))
        assert produce(wire, "t", gap).error_code is ErrorCode.out_of_order_sequence_number
        again = produce(wire, "t", sent[7])  # Kafka's snapshots, like ours, keep the last only
        assert (again.error_code, again.base_offset) == (ErrorCode.none, 7)
        assert produce(wire, "t", sent[8]).base_offset == 8
        newer = batch(producer=(producer, epoch + 1, 0))
        assert produce(wire, "t", newer).error_code is ErrorCode.none
    with lives.next() as broker, broker.wire() as wire:
        late = batch(producer=(producer, epoch, 9))
        assert produce(wire, "t", late).error_code is ErrorCode.invalid_producer_epoch
        assert len(read_all(wire, "t")) == 10


@either
def test_producer_ids_are_never_given_twice(tmp_path: Path, how: str) -> None:
    lives = Lives(tmp_path, how)
    given: list[int] = []
    for _ in range(4):
        with lives.next() as broker, broker.wire() as wire:
            given += [new_producer_id(wire)[0] for _ in range(30)]
    assert len(set(given)) == len(given)
    assert given == sorted(given)


def test_nothing_acknowledged_is_missing_after_kills_in_the_middle_of_writing(data: Path) -> None:
    acknowledged: dict[tuple[int, int], bytes] = {}
    numbers = itertools.count()

    def work(bootstrap: str, partition: int) -> None:
        try:
            with_wire = Wire(bootstrap)
        except OSError:
            return
        try:
            while True:
                value = b"%d" % next(numbers)
                row = produce(with_wire, "t", batch([(None, value)]), partition=partition)
                assert row.error_code is ErrorCode.none
                assert (partition, row.base_offset) not in acknowledged, "an offset given twice"
                acknowledged[partition, row.base_offset] = value
        except (ConnectionClosed, ConnectionError):
            with_wire.close()

    for round_number in range(2):
        with broker_process(data) as process:
            with process.wire() as wire:
                if not round_number:
                    create(wire, "t", 2, internal_segment_bytes=20_000)
            before = len(acknowledged)
            workers = [
                threading.Thread(target=work, args=(process.bootstrap, number % 2), daemon=True)
                for number in range(4)
            ]
            for worker in workers:
                worker.start()
            until(lambda wanted=before + 300: len(acknowledged) > wanted, "some traffic")
            process.kill()
            for worker in workers:
                worker.join()
    with broker_process(data) as process, process.wire() as wire:
        for partition in range(2):
            found = stored(wire, partition)
            mine = {o: value for (p, o), value in acknowledged.items() if p == partition}
            assert {offset: found.get(offset) for offset in mine} == mine


def stored(wire: Wire, partition: int) -> dict[int, bytes | None]:
    found: dict[int, bytes | None] = {}
    offset = 0
    while (answer := fetch(wire, "t", offset, partitions=[partition], max_wait=1)).records:
        for each in read_batches(answer.records):
            found[each.base_offset] = each.pairs[0][1]
            offset = each.last_offset + 1
    return found


@either
def test_a_group_goes_on_where_it_was(tmp_path: Path, how: str) -> None:
    """A real consumer: its position is a record in the log, and so is the group."""
    values = [b"%d" % number for number in range(60)]
    seen: list[bytes | None] = []
    lives = Lives(tmp_path, how)
    with lives.next() as broker:
        broker.create("t")
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for value in values:
            producer.produce("t", value)
        assert producer.flush(60) == 0
    for _ in range(3):
        with lives.next() as broker:
            options = {
                "bootstrap.servers": broker.bootstrap,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
            consumer = Consumer(options)
            consumer.subscribe(["t"])
            messages = []
            while len(messages) < 20:
                messages += consumer.consume(20 - len(messages), timeout=5)
            consumer.commit(asynchronous=False)
            consumer.close()
            seen += [message.value() for message in messages]
    assert seen == values


def test_a_producer_that_writes_of_long_ago_is_remembered_after_kill_9(data: Path) -> None:
    """By when it wrote, not by what its records say of the time: a retry is stored once."""
    with broker_process(data) as process, process.wire() as wire:
        create(wire, "t")
        first = batch(producer=(*new_producer_id(wire), 0), timestamps=[1])
        produce(wire, "t", first)
        process.kill()
    with serving(data) as broker, broker.wire() as wire:
        broker.run(broker.broker.housekeeping._release())
        produce(wire, "t", first)
        assert end_offset(wire, "t") == 1
