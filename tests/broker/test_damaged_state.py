"""Flipped bits in the broker's own topics: it starts, serves the rest, and says what it could not read."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from headwater.broker.internal_topics import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from headwater.record import batch as batches
from headwater.record import records
from tests.broker.serving import Serving, create, serving
from tests.compat.asking import find_coordinator, produce, read_all
from tests.compat.batches import batch
from tests.compat.wire import ErrorCode, Wire

ONE = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
}


def commit(wire: Wire, group: str, offset: int) -> None:
    part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    asked = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": ""}
    topics = [{"name": "t", "partitions": [part]}]
    answer = wire.ask("offset_commit", 8, topics=topics, **asked)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def committed(wire: Wire, group: str) -> int:
    asked = {"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}]}
    answer = wire.ask("offset_fetch", 7, **asked)
    return int(answer.topics[0].partitions[0].committed_offset)


def positions(path: Path) -> list[tuple[int, batches.BatchHeader]]:
    return list(batches.scan(path.read_bytes()))


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 8
    path.write_bytes(content)


def filled(data: Path) -> Path:
    """Three groups that have committed; returns the segment with their commits."""
    with serving(data, ONE) as broker, broker.wire() as wire:
        create(wire, "t")
        for _ in range(9):
            produce(wire, "t", batch())
        for number, group in enumerate(("first", "second", "third")):
            find_coordinator(wire, group)
            commit(wire, group, number + 1)
    return data / f"{CONSUMER_OFFSETS}-0" / f"{0:020d}.log"


@pytest.mark.parametrize("place", [9, 16, 30, 65], ids=["length", "magic", "header", "records"])
def test_a_flipped_bit_in_the_commits_costs_only_what_it_hit(
    data: Path, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(data)
    position, header = positions(log)[1]
    flip(log, position + place)
    content = log.read_bytes()
    for _ in range(2):
        with serving(data, ONE) as broker, broker.wire() as wire:
            assert [committed(wire, group) for group in ("first", "second", "third")] == [1, -1, 3]
            (damage,) = broker.broker.store.damage
            assert (damage.first_offset, damage.next_offset) == (1, 2)
            assert len(read_all(wire, "t")) == 9
            shown = broker.call(broker.broker.health.subjects)[f"damage/{CONSUMER_OFFSETS}-0/1"]
            assert "offsets 1 to 1 cannot be read" in shown["says"]
    copy = log.with_name(f"{1:020d}.damaged")
    assert copy.read_bytes() == content[position : position + header.size]
    assert log.read_bytes().startswith(content), "the segment itself stays as it is"
    assert f"{CONSUMER_OFFSETS}-0: offsets 1 to 1 cannot be read" in caplog.text
    assert "groups that committed there may go back to an older commit" in caplog.text
    with serving(data, ONE) as broker, broker.wire() as wire:
        commit(wire, "second", 7)
    with serving(data, ONE) as broker, broker.wire() as wire:
        assert committed(wire, "second") == 7


def test_every_place_of_the_commits_may_be_damaged(data: Path) -> None:
    log = filled(data)
    size = log.stat().st_size
    for position in range(0, size, 37):
        copy = data.with_name(f"flipped-{position}")
        shutil.copytree(data, copy)
        flip(copy / log.parent.name / log.name, position)
        with serving(copy, ONE) as broker, broker.wire() as wire:
            found = [committed(wire, group) for group in ("first", "second", "third")]
            for number, offset in enumerate(found):
                assert offset in (-1, number + 1)
            assert found.count(-1) <= 1


def test_damage_in_the_other_state_topics_does_not_stop_the_start(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(data, ONE) as broker, broker.wire() as wire:
        create(wire, "t")
        for name in ("one", "two", "three"):
            answer = wire.ask(
                "init_producer_id",
                4,
                transactional_id=name,
                transaction_timeout=60_000,
                producer_id=-1,
            )
            assert answer.error_code is ErrorCode.none
        broker.run(garbage(broker, SHARE_GROUP_STATE, b"\x00\x00", b"rubbish"))
        broker.run(garbage(broker, SHARE_GROUP_STATE, b"\x00\x01", b"rubbish"))
    for topic in (TRANSACTION_STATE, SHARE_GROUP_STATE):
        path = data / f"{topic}-0" / f"{0:020d}.log"
        flip(path, positions(path)[1][0] + 70)
    with serving(data, ONE) as broker:
        assert sorted(broker.broker.transactions.transactions) == ["one", "three"]
        assert len(broker.broker.store.damage) == 2
    assert "transactions that were written there may be as they were before" in caplog.text
    assert "share groups may deliver records once more" in caplog.text


async def garbage(broker: Serving, topic: str, key: bytes, value: bytes) -> None:
    await broker.broker.topics.ensure(topic)
    partition = broker.broker.topics.partitions[topic, 0]
    data = records.build([records.Record(0, 0, key, value)])
    offset = partition.append(data, batches.read_header(data), 0)
    await partition.durable(offset + 1)


@pytest.mark.parametrize("topic", [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE])
def test_records_that_nobody_can_read_are_skipped_with_a_sentence(
    data: Path, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = filled(data)
    rubbish = [b"", b"\x00", b"\x00\x00", b"\x00\x63junk", b"\xff" * 40, b"\x00\x02\x00\x01g"]
    with serving(data, ONE) as broker:
        for key in rubbish:
            for value in (b"", b"\x00", b"\x00\x00", b"\xff\xff\xff", b"\x00\x05" + b"\x7f" * 60):
                broker.run(garbage(broker, topic, key, value))
        for record in records.decode(log.read_bytes()):
            assert record.key is not None
            broker.run(garbage(broker, topic, record.key + b"x", b"\x00\x03"))
            broker.run(garbage(broker, topic, record.key[:-3], record.value or b""))
    caplog.clear()
    with serving(data, ONE) as broker, broker.wire() as wire:
        assert [committed(wire, group) for group in ("first", "second", "third")] == [1, 2, 3]
    assert topic in caplog.text


def test_damage_in_requests_to_excise_is_passed_over(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t")
        create(wire, "__headwater_excisions")
        for number in range(3):
            request = json.dumps({"id": f"r{number}", "topic": "nobody", "target": {}}).encode()
            produce(wire, "__headwater_excisions", batch([(b"r", request)]))
        broker.run(audited(broker, 3))
    for topic in ("__headwater_excisions", "__headwater_audit"):
        path = data / f"{topic}-0" / f"{0:020d}.log"
        flip(path, positions(path)[1][0] + 70)
    with serving(data) as broker, broker.wire() as wire:
        request = json.dumps({"id": "r3", "topic": "nobody", "target": {}}).encode()
        produce(wire, "__headwater_excisions", batch([(b"r", request)]))
        broker.run(audited(broker, 4))
        assert len(broker.broker.store.damage) == 2


async def audited(broker: Serving, count: int) -> None:
    async with asyncio.timeout(30):
        while True:
            partition = broker.broker.partition("__headwater_audit", 0)
            if partition is not None and partition.log.durable_offset >= count:
                return
            await asyncio.sleep(0.05)


def test_a_damaged_dead_letter_does_not_stop_the_start(data: Path) -> None:
    with serving(data, ONE) as broker, broker.wire() as wire:
        create(wire, "dlq.g")
        for _ in range(3):
            produce(wire, "dlq.g", batch())
    path = data / "dlq.g-0" / f"{0:020d}.log"
    flip(path, positions(path)[1][0] + 70)
    with serving(data, ONE) as broker:
        found = broker.call(lambda: list(broker.broker.shares.dead_letters.newest()))
        assert found == []
