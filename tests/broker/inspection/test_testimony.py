"""Without the catalogue, what the state topics say of topics counts: ids, and how many partitions."""

from __future__ import annotations

import os
import shutil
import uuid
from pathlib import Path

import pytest

from headwater.broker.inspection.repair import repair
from headwater.broker.inspection.testimony import HashedKeys
from headwater.broker.internal_topics import java_hash
from headwater.broker.shares import records as share_records
from headwater.broker.shares.state_topic import NAME as SHARES
from headwater.broker.shares.state_topic import coordinator_key
from headwater.record import batch as batches
from headwater.record import records
from tests.broker.inspection.world import World, checked, mended
from tests.broker.serving import delete, serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.wire import Wire

CATALOGUE = "__headwater_catalogue-0"
FIFTY = {"offsets.topic.num.partitions": 50}
GROUPS = [f"group{number}" for number in range(40)]


def commit(wire: Wire, group: str, offset: int) -> None:
    parts = [{"partition_index": 0, "committed_offset": offset}]
    topics = [{"name": "t", "partitions": parts}]
    asked = {"group_id": group, "generation_id_or_member_epoch": -1, "topics": topics}
    answer = wire.ask("offset_commit", 8, **asked)
    assert answer.topics[0].partitions[0].error_code == 0


def committed(wire: Wire, group: str, topic: str = "t") -> int:
    asked = [{"name": topic, "partition_indexes": [0]}]
    answer = wire.ask("offset_fetch", 7, group_id=group, topics=asked)
    return int(answer.topics[0].partitions[0].committed_offset)


def test_commits_after_a_repair_stay_where_the_last_folder_was_lost_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data, FIFTY) as broker, broker.wire() as wire:
        broker.create("t")
        for group in GROUPS:
            commit(wire, group, 10)
        assert all(java_hash(group) % 50 != 49 for group in GROUPS), "the last one is empty"
    shutil.rmtree(data / CATALOGUE)
    shutil.rmtree(data / "__consumer_offsets-49")
    assert repair(data).done
    with serving(data, FIFTY) as broker, broker.wire() as wire:
        assert broker.broker.catalogue.topics["__consumer_offsets"].partitions == 50
        assert {committed(wire, group) for group in GROUPS} == {10}
        for group in GROUPS:
            commit(wire, group, 20)
    with serving(data, FIFTY) as broker, broker.wire() as wire:
        assert {committed(wire, group) for group in GROUPS} == {20}


def test_commits_stay_where_the_folder_no_longer_says_which_topic_it_is_of(world: World) -> None:
    for number in range(2):
        (world.folder("orders", number) / "partition.metadata").write_bytes(b"")
    shutil.rmtree(world.data / CATALOGUE)
    mended(world.data)
    assert not [
        each for each in checked(world.data).findings if each.kind == "commit-without-topic"
    ]
    with serving(world.data) as broker, broker.wire() as wire:
        assert committed(wire, "billing", "orders") == 10


def test_the_state_of_a_share_group_stays_where_it_alone_knows_the_id(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as broker:
        broker.create("t")
        broker.create(SHARES, 1)
        topic_id = broker.broker.catalogue.topics["t"].id
        key = share_records.Key("shippers", topic_id, 0)
        value = share_records.Value(0, 0, [])
        row = (share_records.write_key(0, key), share_records.write_value(0, value))
        data_bytes = records.build([records.Record(0, 1, *row)])
        partition = broker.broker.topics.partitions[SHARES, 0]

        async def write() -> None:
            header = batches.read_header(data_bytes)
            await partition.durable(partition.append(data_bytes, header, 1) + 1)

        broker.run(write())
    (data / "t-0" / "partition.metadata").write_bytes(b"")
    shutil.rmtree(data / CATALOGUE)
    mended(data)
    with serving(data) as broker:
        assert broker.broker.catalogue.topics["t"].id == topic_id


@pytest.mark.parametrize("number", [1, 2, 7, 50, 64])
def test_a_few_keys_tell_the_number_of_partitions(number: int) -> None:
    keys = HashedKeys()
    for each in range(200):
        key = coordinator_key(share_records.Key(f"g{each}", uuid.UUID(int=each), 0))
        keys.seen(java_hash(key) % number, key)
    least = max(at for _, at in keys.found) + 1
    assert keys.partitions(least, usual=50) == number


def test_without_keys_it_is_the_usual_number_and_never_less_than_there_are_folders() -> None:
    assert HashedKeys().partitions(3, usual=50) == 50
    assert HashedKeys().partitions(60, usual=50) == 60
    contradictory = HashedKeys({(5, 1), (5, 2)})
    assert contradictory.partitions(3, usual=50) == 3


@pytest.mark.parametrize("has_commits", [True, False])
def test_a_topic_that_was_made_again_keeps_its_id_where_the_catalogue_has_lost_its_end(
    tmp_path: Path, has_commits: bool
) -> None:
    """Its folders got the id of the one that was deleted: commits were taken for that one's, and dropped."""
    data = tmp_path / "data"
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t", 3, retention_ms=1)
        if has_commits:
            commit(wire, "readers", 5)
        size = (data / CATALOGUE / "00000000000000000000.log").stat().st_size
        assert delete(wire, "t") == 0
        made = broker.create("t", 2)
        produce(wire, "t", batch([(b"key", b"value")]))
        if has_commits:
            commit(wire, "readers", 1)
    os.truncate(data / CATALOGUE / "00000000000000000000.log", size + 3)

    mended(data)
    with serving(data) as broker, broker.wire() as wire:
        found = broker.broker.catalogue.topics["t"]
        assert (found.id, found.partitions) == (made, 2)
        assert "retention.ms" not in found.configs or found.configs["retention.ms"] == "-1"
        assert broker.log("t").durable_offset == 1
        if has_commits:
            assert committed(wire, "readers") == 1
