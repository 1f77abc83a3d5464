"""The catalogue survives a crash at any byte of its last record: the old state or the new, nothing else."""

from __future__ import annotations

import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.broker import Broker
from headwater.broker.catalogue import LOG_NAME
from tests.broker.disks import HandDisk
from tests.broker.serving import create, delete, serving
from tests.compat.asking import end_offset, new_producer_id, produce
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ConnectionClosed, Wire

LOG = Path(f"{LOG_NAME}-0") / "00000000000000000000.log"


def grow(wire: Wire) -> None:
    asked = {"name": "first", "count": 3, "assignments": None}
    wire.ask("create_partitions", 3, topics=[asked], timeout=9000)


def alter(kind: int, name: str, key: str) -> Callable[[Wire], None]:
    change = {"name": key, "config_operation": 0, "value": "987654321"}
    asked = {"resource_type": kind, "resource_name": name, "configs": [change]}
    return lambda wire: wire.ask("incremental_alter_configs", 1, resources=[asked])


CHANGES: dict[str, Callable[[Wire], object]] = {
    "create": lambda wire: create(wire, "second"),
    "delete": lambda wire: delete(wire, "first"),
    "grow": grow,
    "topic config": alter(2, "first", "retention.ms"),
    "broker config": alter(4, "", "log.retention.ms"),
    "producer id": new_producer_id,
}


def state(broker: Broker) -> Any:
    """What the catalogue says."""
    catalogue = broker.catalogue
    topics = {t.name: (t.id, t.partitions, dict(t.configs)) for t in catalogue.topics.values()}
    configs = {node: dict(each) for node, each in catalogue.broker_configs.items()}
    return topics, configs, catalogue.producer_ids.end


class Crash:
    """The folder before a change, and the catalogue's log after it: what lies between is a crash."""

    def __init__(self, folder: Path, change: Callable[[Wire], object]) -> None:
        self._folder, self._before = folder, folder / "before"
        data = folder / "data"
        with serving(data) as broker, broker.wire() as wire:
            create(wire, "first", 2)
            produce(wire, "first", batch())
            shutil.copytree(data, self._before)
            self.old = broker.call(lambda: state(broker.broker))
            change(wire)
            self.new = broker.call(lambda: state(broker.broker))
            self._log = (data / LOG).read_bytes()
        self.start = (self._before / LOG).stat().st_size
        self.end = len(self._log)
        assert self.old != self.new
        assert self.end - self.start > 61

    def at(self, size: int, tail: bytes = b"") -> Path:
        """The folder as a crash leaves it that let `size` bytes through, and `tail` behind them."""
        data = self._folder / f"cut-{size}-{len(tail)}"
        shutil.copytree(self._before, data)
        (data / LOG).write_bytes(self._log[:size] + tail)
        return data


async def starts_with(data: Path, expected: Any, *, goes_on: bool = True) -> None:
    """A broker on that folder has this state, and goes on from it."""
    broker = Broker(data, "127.0.0.1:0", files=HandDisk())
    async with broker:
        found = state(broker)
        assert found == expected
        for name, (_, partitions, _) in found[0].items():
            for number in range(partitions):
                assert broker.partition(name, number) is not None
        folders = {path.name for path in data.glob("*-[0-9]") if not path.name.startswith("__")}
        assert folders == {
            f"{name}-{n}" for name, (_, count, _) in found[0].items() for n in range(count)
        }
        if goes_on:
            await broker.topics.create("third", 1, {})
    shutil.rmtree(data)


async def test_a_topic_being_made_is_there_or_not_whatever_byte_the_crash_came_at(
    tmp_path: Path,
) -> None:
    crash = Crash(tmp_path, CHANGES["create"])
    for size in range(crash.start, crash.end):
        await starts_with(crash.at(size), crash.old, goes_on=size % 16 == 0)
    await starts_with(crash.at(crash.end), crash.new)


@pytest.mark.parametrize("name", [name for name in CHANGES if name != "create"])
async def test_every_other_change_is_there_or_not(tmp_path: Path, name: str) -> None:
    crash = Crash(tmp_path, CHANGES[name])
    for size in range(crash.start, crash.end, 23):
        await starts_with(crash.at(size), crash.old)
    await starts_with(crash.at(crash.end - 1), crash.old)
    await starts_with(crash.at(crash.end), crash.new)


@pytest.mark.parametrize("rubbish", [b"\0", b"\xff", b"\x02"])
async def test_rubbish_behind_the_cut_is_no_record(tmp_path: Path, rubbish: bytes) -> None:
    """The file may have its length before it has its bytes."""
    crash = Crash(tmp_path, CHANGES["create"])
    for size in range(crash.start, crash.end, 19):
        await starts_with(crash.at(size, rubbish * (crash.end - size)), crash.old)
    await starts_with(crash.at(crash.end, rubbish * 100), crash.new)


async def test_a_start_cut_short_by_the_next_crash_changes_nothing(tmp_path: Path) -> None:
    crash = Crash(tmp_path, CHANGES["delete"])
    data = crash.at(crash.end - 5)
    for number in range(3):
        broker = Broker(data, "127.0.0.1:0", files=HandDisk())
        async with broker:
            assert state(broker) == crash.old
            following = tmp_path / f"again-{number}"
            shutil.copytree(data, following)
        data = following


@pytest.mark.parametrize("name", CHANGES)
def test_a_client_that_leaves_before_its_change_is_durable_does_not_part_memory_from_the_log(
    data: Path, name: str
) -> None:
    """The record is on its way to the disk: nobody can call it back."""
    disk = HandDisk()
    with serving(data, files=disk) as broker:
        broker.create("first", 2)
        connections = broker.broker.connections
        with disk.held("sync", f"{LOG_NAME}-0/*.log") as held:
            with broker.wire() as wire:
                leaver = threading.Thread(target=_try, args=(CHANGES[name], wire), daemon=True)
                leaver.start()
                held.until_reached()
                wire._socket.shutdown(socket.SHUT_RDWR)
            until(lambda: not broker.call(lambda: len(connections)), "it to be gone")
            held.release()
            leaver.join()
        with broker.wire() as wire:
            create(wire, "later")  # behind it
        in_memory = broker.call(lambda: state(broker.broker))
        assert "later" in in_memory[0]
        for topic, (_, partitions, _) in in_memory[0].items():
            for number in range(partitions):
                assert broker.broker.partition(topic, number) is not None
    with serving(data) as broker:
        assert broker.call(lambda: state(broker.broker)) == in_memory


def _try(change: Callable[[Wire], object], wire: Wire) -> None:
    """Ask for it, and lose the connection."""
    try:
        change(wire)
    except (ConnectionClosed, OSError):
        return


def test_hundreds_of_changes_are_read_back_in_order(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        for number in range(40):
            create(wire, f"t-{number % 7}", 1 + number % 3)
            if number % 7 != 3:
                produce(wire, f"t-{number % 7}", batch())
            if number % 5:
                delete(wire, f"t-{number % 7}")
            else:
                delete(wire, f"t-{(number - 1) % 7}")
                delete(wire, f"t-{number % 7}")
        create(wire, "t-3", 2)
        expected = broker.call(lambda: state(broker.broker))
    with serving(data) as broker, broker.wire() as wire:
        assert broker.call(lambda: state(broker.broker)) == expected
        assert end_offset(wire, "t-3") == 0
