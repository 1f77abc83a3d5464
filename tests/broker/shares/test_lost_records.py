"""A share group after its partition has lost its end: what is written there then is nobody's yet."""

from __future__ import annotations

import shutil
from pathlib import Path

from headwater.broker.broker import Broker
from headwater.broker.partition import Partition
from headwater.broker.shares.state_topic import coordinator_key
from headwater.log import checkpoints
from headwater.record import batch as batches
from headwater.record import records
from tests.broker.shares.test_coordinator import Ack, Key, PartitionOwner, running, settle, take


async def fill(partition: Partition) -> None:
    data = records.build([records.Record(n, 0, None, b"%d" % n) for n in range(50)])
    await partition.durable(partition.append(data, batches.read_header(data), 0) + 50)


async def lost_end(node: Broker, data: Path) -> None:
    """The folder as a power cut may leave it: of two batches that the group has read, one is there."""
    await node.topics.create("t", 1, {"durability": "os"})
    partition = node.topics.partitions["t", 0]
    await fill(partition)
    await fill(partition)
    found = owner(node)
    await found.reset(0)
    take(found, "a", 100)
    for first, last, kind in ((0, 69, Ack.ACCEPT), (80, 89, Ack.ACCEPT), (90, 99, Ack.REJECT)):
        assert (await settle(found, "a", first, last, kind))[0].name == "none"
    shutil.copytree(node.data, data)
    for name in (".lock", checkpoints.RECOVERY_POINTS, f"t-0/{checkpoints.DURABLE_OFFSET}"):
        (data / name).unlink(missing_ok=True)
    path = data / "t-0" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def owner(node: Broker) -> PartitionOwner:
    return node.shares.owner(Key("g", node.catalogue.topics["t"].id, 0), "t")


async def test_records_that_get_the_offsets_of_lost_ones_are_delivered(tmp_path: Path) -> None:
    async with running(tmp_path / "before") as node:
        await lost_end(node, tmp_path / "data")
    async with running(tmp_path / "data") as node:
        states = node.shares.states.partition_of(coordinator_key(owner(node).key)).log
        assert states.durable_offset == states.next_offset  # before anybody writes
        assert node.topics.partitions["t", 0].log.durable_offset == 50
        await fill(node.topics.partitions["t", 0])
        assert [(each.first, each.last) for each in take(owner(node), "a", 10)] == [(50, 59)]
    async with running(tmp_path / "data") as node:  # no dead letter of a lost one ends a new one
        state = owner(node).state
        assert state is not None
        assert [n for n in range(100) if not state.is_settled(n)] == list(range(50, 100))
