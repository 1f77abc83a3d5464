"""Acknowledged means on disk: the order of sync, answer and visibility, watched at the file seam."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, serving
from tests.compat.asking import (
    MAX_TIMESTAMP,
    end_offset,
    fetch,
    fetch_request,
    offset_at,
    produce,
    produce_request,
)
from tests.compat.batches import batch, read_batches
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

LOG = "t-0/*.log"


def send_produce(wire: Wire, topic: str = "t", partition: int = 0, acks: int = -1) -> None:
    wire.send("produce", 9, **produce_request(topic, batch(), partition, acks))


def has_answer(wire: Wire) -> bool:
    """Whether the first bytes of an answer are there."""
    wire._socket.settimeout(0.3)
    try:
        return bool(wire._socket.recv(1, 0x2))  # MSG_PEEK
    except TimeoutError:
        return False
    finally:
        wire._socket.settimeout(60)


@pytest.mark.parametrize("acks", [-1, 1])
def test_the_answer_comes_after_the_sync(data: Path, acks: int) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        with disk.held("sync", LOG) as held:
            send_produce(wire, acks=acks)
            held.until_reached()
            assert not has_answer(wire), "acknowledged before it was on disk"
            held.release()
            row = wire.receive()[1].responses[0].partition_responses[0]
        assert (row.error_code, row.base_offset) == (ErrorCode.none, 0)


def test_every_answer_is_preceded_by_a_sync_of_its_record(data: Path) -> None:
    """Not only the first: what is synced must reach as far as what is acknowledged."""
    disk, synced = HandDisk(), [0]
    sizes: dict[Path, int] = {}
    disk.on("sync", lambda path: sizes.update({path: path.stat().st_size}), LOG)
    disk.on("synced", lambda path: synced.append(sizes[path]), LOG)
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        for number in range(50):
            produce(wire, "t", batch([(None, bytes(number))]))
            assert synced[-1] >= broker.call(lambda: broker.log("t").size())


def test_a_new_segments_name_is_synced_before_its_first_answer(data: Path) -> None:
    disk, seen = HandDisk(), []
    disk.on("sync_dir", lambda path: seen.append(path.name))
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t", internal_segment_bytes=200)
        for number in range(5):
            seen.clear()
            produce(wire, "t", batch([(None, bytes(100))]))
            assert "t-0" in seen, f"segment {number} could be lost with the power"


def test_nobody_sees_a_record_before_it_is_synced(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire, broker.wire() as reader:
        broker.create("t")
        produce(wire, "t", batch())
        with disk.held("sync", LOG) as held:
            send_produce(wire)
            held.until_reached()
            assert end_offset(reader, "t") == 1
            assert offset_at(reader, "t", MAX_TIMESTAMP).offset == 0
            found = fetch(reader, "t", 0, max_wait=1)
            assert (found.high_watermark, len(read_batches(found.records))) == (1, 1)
            beyond = fetch(reader, "t", 1, max_wait=1)
            assert (beyond.error_code, beyond.records or b"") == (ErrorCode.none, b"")
            reader.send("fetch", 12, **fetch_request("t", 1, max_wait=20_000))
            held.release()
            (seen,) = read_batches(reader.receive()[1].responses[0].partitions[0].records)
        assert seen.base_offset == 1
        wire.receive()


def test_group_commit_lets_many_requests_share_a_sync(data: Path) -> None:
    disk, syncs = HandDisk(), Counter[str]()
    with serving(data, files=disk) as broker:
        broker.create("t")
        disk.on("sync", lambda path: syncs.update([path.name]), LOG)
        wires = [Wire(broker.bootstrap) for _ in range(10)]
        with disk.held("sync", LOG) as held:
            send_produce(wires[0])
            held.until_reached()
            for wire in wires:
                for _ in range(10):
                    send_produce(wire)
            until(lambda: _staged(broker) == 101, "all of them to be staged")
        offsets = [_base_offset(wires[0])]
        offsets += [_base_offset(wire) for wire in wires for _ in range(10)]
        for wire in wires:
            wire.close()
    assert sorted(offsets) == list(range(101))
    assert syncs.total() <= 4, "a hundred requests waited while one sync was under way"


def _staged(broker: Serving) -> int:
    return int(broker.call(lambda: broker.log("t").next_offset))


def _base_offset(wire: Wire) -> int:
    row = wire.receive()[1].responses[0].partition_responses[0]
    assert row.error_code is ErrorCode.none
    return int(row.base_offset)


@pytest.mark.parametrize("where", ["broker", "topic"])
def test_durability_os_answers_without_a_sync(data: Path, where: str) -> None:
    disk = HandDisk()
    durability = {"durability": "os"}
    with (
        serving(data, durability if where == "broker" else None, files=disk) as broker,
        broker.wire() as wire,
    ):
        broker.create("t", **(durability if where == "topic" else {}))
        with disk.failing("sync", name=LOG):
            for number in range(20):
                assert produce(wire, "t", batch([(None, bytes(20_000))])).base_offset == number
            assert end_offset(wire, "t") == 20


def test_a_topic_may_ask_for_more_than_its_broker(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk, durability="os") as broker, broker.wire() as wire:
        broker.create("t", durability="disk")
        with disk.held("sync", LOG) as held:
            send_produce(wire)
            held.until_reached()
            assert not has_answer(wire)
            held.release()
            assert _base_offset(wire) == 0


def test_a_duplicate_is_acknowledged_no_earlier_than_its_first_copy(data: Path) -> None:
    disk = HandDisk()
    records = batch(producer=(7, 0, 0))
    with serving(data, files=disk) as broker, broker.wire() as first, broker.wire() as retry:
        broker.create("t")
        with disk.held("sync", LOG) as held:
            first.send("produce", 9, **produce_request("t", records))
            held.until_reached()
            retry.send("produce", 9, **produce_request("t", records))
            assert not has_answer(retry), "a duplicate of what may still be lost"
            held.release()
            assert (_base_offset(first), _base_offset(retry)) == (0, 0)


def test_a_topic_is_announced_when_its_record_is_durable(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire, broker.wire() as other:
        with disk.held("sync", "__headwater_catalogue-0/*.log") as held:
            asked = {"name": "t", "num_partitions": 1, "replication_factor": 1}
            wire.send("create_topics", 7, topics=[asked], timeout=9000)
            held.until_reached()
            assert not has_answer(wire)
            assert not other.ask("metadata", 12, topics=None).topics
            held.release()
            assert wire.receive()[1].topics[0].error_code is ErrorCode.none
        assert [each.name for each in other.ask("metadata", 12, topics=None).topics] == ["t"]


def test_a_committed_offset_is_answered_when_it_is_durable(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire, broker.wire() as other:
        broker.create("t")
        commit(wire, 1)
        assert wire.receive()[1].topics[0].partitions[0].error_code is ErrorCode.none
        with disk.held("sync", "__consumer_offsets-*/*.log") as held:
            commit(wire, 2)
            held.until_reached()
            assert not has_answer(wire)
            assert committed(other) == 1, "a commit that may still be lost"
            held.release()
            wire.receive()
        assert committed(other) == 2


def commit(wire: Wire, offset: int) -> None:
    row = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}
    topics = [{"name": "t", "partitions": [{**row, "committed_metadata": ""}]}]
    alone = {"generation_id_or_member_epoch": -1, "member_id": ""}
    wire.send("offset_commit", 8, group_id="g", topics=topics, **alone)


def committed(wire: Wire) -> Any:
    groups = [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}]
    answer = wire.ask("offset_fetch", 8, groups=groups)
    return answer.groups[0].topics[0].partitions[0].committed_offset


def test_slow_partitions_keep_their_order_and_others_do_not_wait_for_their_answers(
    data: Path,
) -> None:
    """Slow syncs of three partitions, as of a small transaction, leave one of the disk threads."""
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as slow, broker.wire() as quick:
        broker.create("slow", 3)
        broker.create("quick")
        with ExitStack() as blocks:
            for number in range(3):
                held = blocks.enter_context(disk.held("sync", f"slow-{number}/*.log"))
                send_produce(slow, "slow", partition=number)
                held.until_reached()
            for number in range(10):
                assert produce(quick, "quick", batch()).base_offset == number
        assert [_base_offset(slow) for _ in range(3)] == [0, 0, 0]


def test_producers_on_many_threads_get_offsets_without_gap_or_repetition(data: Path) -> None:
    with serving(data) as broker:
        broker.create("t", 4)
        found: dict[int, list[int]] = {partition: [] for partition in range(4)}

        def work() -> None:
            with broker.wire() as wire:
                for number in range(40):
                    row = produce(wire, "t", batch([(None, b"x")] * 3), partition=number % 4)
                    found[number % 4].append(row.base_offset)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for offsets in found.values():
        assert sorted(offsets) == list(range(0, 150, 3))
