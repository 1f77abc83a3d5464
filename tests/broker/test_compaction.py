"""Compaction beside the traffic: nobody waits, the newest of each key stays, restarts find the same."""

from __future__ import annotations

import random
import shutil
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from headwater.broker.inspection.check import inspect
from headwater.log import compaction
from tests.broker.bystander import Bystander
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, create, serving
from tests.compat.asking import end_offset, fetch, produce
from tests.compat.batches import NOW_MS, batch, read_batches
from tests.compat.waiting import AT_ONCE_SECONDS, until
from tests.compat.wire import ErrorCode, Wire

SETTINGS = {"log.cleaner.enable": True, "log.cleaner.backoff.ms": 50}
EAGER = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": 0.01,
    "internal_segment_bytes": 20_000,
    "delete_retention_ms": 0,
}


def contents(wire: Wire, topic: str) -> list[tuple[int, bytes, bytes | None]]:
    """(offset, key, value) of every record, read from the beginning."""
    found = []
    offset, end = 0, end_offset(wire, topic)
    while offset < end:
        answer = fetch(wire, topic, offset, max_wait=1)
        assert answer.error_code is ErrorCode.none
        batches = read_batches(answer.records)
        assert batches, f"nothing at {offset}, though the log ends at {end}"
        for each in batches:
            assert each.last_offset >= offset
            # Compaction leaves gaps, so a record's offset is not its number in the batch; but these
            # tests write one record per batch.
            found += [(each.last_offset, key or b"", value) for key, value in each.pairs]
            offset = each.last_offset + 1
    return found


def newest(found: list[tuple[int, bytes, bytes | None]]) -> dict[bytes, bytes | None]:
    return {key: value for _, key, value in found}


def until_compacted(broker: Serving, topic: str, at_least: int) -> None:
    log = broker.log(topic)
    until(lambda: broker.call(lambda: log.cleaned_offset) >= at_least, "compaction")


def test_the_newest_of_each_key_stays_while_the_topic_is_written_and_read(data: Path) -> None:
    dice = random.Random(3)
    expected: dict[bytes, bytes] = {}
    with serving(data, SETTINGS) as broker, broker.wire() as wire:
        create(wire, "t", **EAGER)
        with Bystander(broker.bootstrap) as bystander:
            done, seen = threading.Event(), dict[bytes, bytes | None]()

            def follow() -> None:
                """A consumer at the end of the log misses nothing, whatever compaction does."""
                with broker.wire() as reader:
                    offset = 0
                    while not done.is_set() or offset < end_offset(reader, "t"):
                        for each in read_batches(fetch(reader, "t", offset, max_wait=50).records):
                            seen.update({key or b"": value for key, value in each.pairs})
                            offset = each.last_offset + 1

            follower = threading.Thread(target=follow, daemon=True)
            follower.start()
            for number in range(1500):
                key, value = b"key-%d" % dice.randrange(40), b"%d" % number * 30
                assert produce(wire, "t", batch([(key, value)])).base_offset == number
                expected[key] = value
            until_compacted(broker, "t", 1000)
            bystander.goes_on()
            assert bystander.slowest < AT_ONCE_SECONDS
            done.set()
            follower.join()
        found = contents(wire, "t")
        assert len(found) < 900, "something was compacted"
        assert newest(found) == seen == expected
        assert found == sorted(found), "offsets keep their order"
        assert end_offset(wire, "t") == 1500
        log = broker.log("t")
        until_compacted(broker, "t", broker.call(lambda: log.active.base_offset))
        copy = data.with_name("killed")
        shutil.copytree(data, copy, ignore=shutil.ignore_patterns("*.tmp"))
    for folder in (data, copy):
        with serving(folder) as broker, broker.wire() as wire:
            assert newest(contents(wire, "t")) == expected
            assert produce(wire, "t", batch([(b"new", b"record")])).base_offset == 1500


def test_a_deleted_key_is_gone_and_the_others_are_not(data: Path) -> None:
    with serving(data, SETTINGS) as broker, broker.wire() as wire:
        create(wire, "t", **{**EAGER, "internal_segment_bytes": 2000})
        for number in range(20):
            produce(wire, "t", batch([(b"stays", b"%d" % number * 20)]))
            produce(wire, "t", batch([(b"goes", b"secret" * 10)]))
        produce(wire, "t", batch([(b"goes", None)]))

        def is_gone() -> bool:
            produce(wire, "t", batch([(b"filler", bytes(900))]))
            return all(key != b"goes" for _, key, _ in contents(wire, "t"))

        until(is_gone, "the tombstone and what it deletes to be gone")
        assert newest(contents(wire, "t"))[b"stays"] == b"19" * 20
        found = b"".join(path.read_bytes() for path in data.glob("t-0/*.log"))
        assert b"secret" not in found, "gone from the disk as well"


def test_a_real_consumer_reads_a_compacted_topic_from_the_beginning(data: Path) -> None:
    with serving(data, SETTINGS) as broker, broker.wire() as wire:
        create(wire, "t", **{**EAGER, "internal_segment_bytes": 3000})
        for number in range(300):
            pairs = [(b"k%d" % (number % 5), b"%d-%d" % (number, n)) for n in range(3)]
            produce(wire, "t", batch(pairs))
        until_compacted(broker, "t", 600)
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        latest: dict[bytes, bytes] = {}
        offsets: list[int] = []
        while not offsets or offsets[-1] < 899:
            for message in consumer.consume(500, timeout=0.3):
                assert message.error() is None
                latest[message.key()] = message.value()
                offsets.append(message.offset())
        consumer.close()
        assert offsets == sorted(set(offsets))
        assert len(offsets) < 500
        assert latest == {b"k%d" % (n % 5): b"%d-2" % n for n in range(295, 300)}


def test_committed_offsets_survive_the_compaction_of_their_topic(data: Path) -> None:
    settings = {
        **SETTINGS,
        "offsets.topic.num.partitions": 1,
        "log.cleaner.min.cleanable.ratio": 0.01,
    }
    with serving(data, settings) as broker, broker.wire() as wire:
        create(wire, "t")
        commit(wire, "group-0", 0)
        change = {"name": "internal.segment.bytes", "config_operation": 0, "value": "10000"}
        asked = {"resource_type": 2, "resource_name": "__consumer_offsets", "configs": [change]}
        wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=False)
        for number in range(600):
            commit(wire, f"group-{number % 6}", number)
        until_compacted(broker, "__consumer_offsets", 300)
        expected = [committed(wire, f"group-{number}") for number in range(6)]
        assert expected == [594, 595, 596, 597, 598, 599]
        for number in range(6):
            commit(wire, f"group-{number}", 1000 + number)
    with serving(data, settings) as broker, broker.wire() as wire:
        assert [committed(wire, f"group-{n}") for n in range(6)] == [1000 + n for n in range(6)]


def commit(wire: Wire, group: str, offset: int) -> None:
    row = {"partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1}
    topics = [{"name": "t", "partitions": [{**row, "committed_metadata": ""}]}]
    alone = {"generation_id_or_member_epoch": -1, "member_id": ""}
    answer = wire.ask("offset_commit", 8, group_id=group, topics=topics, **alone)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none


def committed(wire: Wire, group: str) -> int:
    groups = [{"group_id": group, "topics": [{"name": "t", "partition_indexes": [0]}]}]
    answer = wire.ask("offset_fetch", 8, groups=groups)
    return int(answer.groups[0].topics[0].partitions[0].committed_offset)


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_change_of_policy_counts_at_once(data: Path, policy: str) -> None:
    with serving(data, SETTINGS) as broker, broker.wire() as wire:
        create(wire, "t", **{**EAGER, "cleanup_policy": policy, "internal_segment_bytes": 2000})
        old = NOW_MS - 1000
        for number in range(60):
            pair = (b"k%d" % (number % 3), b"%d" % number * 20)
            produce(wire, "t", batch([pair], timestamps=[old]))
        if policy == "delete":
            assert len(contents(wire, "t")) == 60, "nobody asked for compaction"
            change = {"name": "cleanup.policy", "config_operation": 0, "value": "compact"}
            asked = {"resource_type": 2, "resource_name": "t", "configs": [change]}
            wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=False)
        until_compacted(broker, "t", 30)
        found = contents(wire, "t")
        assert len(found) < 40
        assert {key: value for _, key, value in found[-3:]} == newest(found)


def test_a_small_segment_size_for_the_offsets_topic_works(
    data: Path,
) -> None:
    with (
        serving(data, {"offsets.topic.segment.bytes": 20_000}) as broker,
        broker.wire() as wire,
    ):
        create(wire, "t")
        commit(wire, "g", 5)
        assert committed(wire, "g") == 5


def test_a_compacted_log_is_readable_after_a_kill_though_its_policy_has_changed(
    data: Path, tmp_path: Path
) -> None:
    """Without a checkpoint since: gaps must not be taken for damage, by readers or by an inspection."""
    killed = tmp_path / "killed"
    with serving(data, SETTINGS | {"log.cleaner.enable": False}) as broker, broker.wire() as wire:
        create(wire, "t", **{**EAGER, "internal_segment_bytes": 2000})
        for number in range(60):
            produce(wire, "t", batch([(b"k%d" % (number % 3), b"%d" % number * 20)]))
        assert broker.run(broker.broker.cleaner.clean_dirtiest())
        expected = contents(wire, "t")
        assert len(expected) < 40
        change = {"name": "cleanup.policy", "config_operation": 0, "value": "delete"}
        asked = {"resource_type": 2, "resource_name": "t", "configs": [change]}
        wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=False)
        shutil.copytree(data, killed)
    assert not inspect(killed).wrong
    with serving(killed) as broker, broker.wire() as wire:
        assert contents(wire, "t") == expected


def test_that_a_clean_segment_could_not_be_read_is_on_disk_before_others_are_exchanged(
    data: Path,
) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t", cleanup_policy="compact", min_cleanable_dirty_ratio=0)
        partition = broker.broker.topics.partitions["t", 0]

        def dirty(*values: bytes) -> compaction.Plan:
            for value in values:
                assert produce(wire, "t", batch([(b"k", value)])).error_code is ErrorCode.none
            broker.call(lambda: partition.roll(1))
            assert produce(wire, "t", batch([(b"k", b"last")])).error_code is ErrorCode.none
            plan = compaction.plan(partition.log, 1 << 50)
            assert plan is not None
            return plan

        broker.run(broker.broker.cleaner.clean(partition, dirty(b"1", b"2")))
        assert partition.log.cleaned_offset == 2
        plan = dirty(b"3", b"4")
        with (data / "t-0" / "00000000000000000000.log").open("r+b") as file:
            file.seek(30)
            file.write(b"?")
        with disk.held("rename", name="t-0/*") as held:
            cleaning = broker.begin(broker.broker.cleaner.clean(partition, plan))
            held.until_reached()
            assert "t 0 1" in (data / "cleaner-offset-checkpoint").read_text().splitlines()
        cleaning.result(60)
        assert partition.log.cleaned_offset == 1


def test_nothing_is_dropped_once_the_policy_is_not_to_compact(data: Path) -> None:
    change = {"name": "cleanup.policy", "config_operation": 0, "value": "delete"}
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", cleanup_policy="compact", min_cleanable_dirty_ratio=0)
        partition = broker.broker.topics.partitions["t", 0]
        for value in (b"1", b"2", b"3"):
            assert produce(wire, "t", batch([(b"k", value)])).error_code is ErrorCode.none
            broker.call(lambda: partition.roll(1))
        plan = compaction.plan(partition.log, 1 << 50)
        assert plan is not None
        result = broker.run(broker.broker.cleaner._compact(partition, plan))
        assert result.made
        asked = {"resource_type": 2, "resource_name": "t", "configs": [change]}
        answer = wire.ask("incremental_alter_configs", 1, resources=[asked], validate_only=False)
        assert answer.responses[0].error_code is ErrorCode.none
        assert not broker.run(broker.broker.maintenance.put_in_place(partition, plan, result))
        assert not list(data.glob("t-0/*.cleaned"))
        assert [value for _, _, value in contents(wire, "t")] == [b"1", b"2", b"3"]


def test_segments_that_are_exchanged_are_neither_looked_for_nor_opened_by_the_event_loop(
    data: Path,
) -> None:
    disk, threads = HandDisk(), set[str]()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t", **EAGER)
        partition = broker.broker.topics.partitions["t", 0]
        for number in range(5):
            produce(wire, "t", batch([(b"key", b"%d" % number)]))
            broker.call(lambda: partition.roll(NOW_MS))
            broker.run(partition.flushed())
        produce(wire, "t", batch([(b"key", b"last")]))
        broker.run(broker.broker.housekeeping._release())
        end = disk.on("open", lambda _: threads.add(threading.current_thread().name), "t-0/*.log")
        assert broker.run(broker.broker.cleaner.clean_dirtiest())
        end()
        assert threads and "broker-under-test" not in threads
        assert newest(contents(wire, "t")) == {b"key": b"last"}
