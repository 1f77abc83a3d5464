"""What strangers can make the broker hold is bounded, by one budget, and nobody else pays for it."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.broker import memory as memory_module
from headwater.broker import turns
from headwater.broker.memory import LARGE_BYTES, MemoryBudget
from tests.broker.bystander import Bystander
from tests.broker.processes import BrokerProcess, broker_process
from tests.broker.serving import create, serving
from tests.broker.test_backpressure import Highest
from tests.compat.asking import end_offset, fetch_request, produce, produce_request
from tests.compat.batches import batch, read_batches
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

MEGABYTE = 1024**2
LIMIT = 32 * MEGABYTE
SLACK = 24 * MEGABYTE
"""What Python, the allocator and 64 KiB for each connection may add."""


@contextmanager
def bounded_broker(folder: Path) -> Iterator[BrokerProcess]:
    with broker_process(folder / "data", f"queued.max.request.bytes={LIMIT}") as process:
        yield process


def half_a_request(bootstrap: str, announced: int, sent: int) -> socket.socket:
    """A connection whose request is never complete; what the broker does not read, stays with us."""
    host, _, port = bootstrap.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    header = struct.pack(">ihhih", announced, 0, 9, 1, -1)
    connection.setblocking(False)
    data = memoryview(header + bytes(sent))

    def send() -> None:
        connection.setblocking(True)
        connection.settimeout(2)
        try:
            connection.sendall(data)
        except OSError:
            pass  # it is full, or we were thrown out

    threading.Thread(target=send, daemon=True).start()
    return connection


def test_half_requests_of_many_are_held_within_the_limit(tmp_path: Path) -> None:
    with bounded_broker(tmp_path) as process, Bystander(process.bootstrap) as honest:
        before = process.resident_bytes
        with Highest(process) as highest:
            held = [
                half_a_request(process.bootstrap, 60 * MEGABYTE, 40 * MEGABYTE) for _ in "12345"
            ]
            honest.goes_on(500)
            for each in held:
                each.close()
        assert highest.bytes - before < LIMIT // 4 + 60 * MEGABYTE + SLACK, "200 MB were sent"
        honest.goes_on()


def test_nor_do_many_smaller_ones_take_more(tmp_path: Path) -> None:
    with bounded_broker(tmp_path) as process, Bystander(process.bootstrap) as honest:
        before = process.resident_bytes
        with Highest(process) as highest:
            held = [
                half_a_request(process.bootstrap, MEGABYTE - 4, MEGABYTE - 100) for _ in range(150)
            ]
            honest.goes_on(500)
            for each in held:
                each.close()
        assert highest.bytes - before < LIMIT + SLACK, "150 MB were sent"
        honest.goes_on()


def test_who_announces_much_and_sends_nothing_is_dropped_for_those_who_wait(tmp_path: Path) -> None:
    with bounded_broker(tmp_path) as process:
        liars = [half_a_request(process.bootstrap, 90 * MEGABYTE, 10) for _ in range(3)]
        with process.wire() as wire:
            create(wire, "t", max_message_bytes=50 * MEGABYTE)
            stored = produce(wire, "t", batch([(None, bytes(20 * MEGABYTE))]))
            assert stored.error_code is ErrorCode.none
        process.until_said("others wait for the memory")
        for each in liars:
            each.close()


def test_a_request_larger_than_the_whole_budget_gets_through(tmp_path: Path) -> None:
    with bounded_broker(tmp_path) as process, Bystander(process.bootstrap) as honest:
        with process.wire() as wire:
            create(wire, "t", 3, max_message_bytes=80 * MEGABYTE)
        large = batch([(None, bytes(LIMIT + MEGABYTE))])
        wires = [Wire(process.bootstrap, timeout=60) for _ in range(3)]
        threads = [
            threading.Thread(
                target=wire.send, args=("produce", 9), kwargs=produce_request("t", large, number)
            )
            for number, wire in enumerate(wires)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for wire in wires:
            row = wire.receive()[1].responses[0].partition_responses[0]
            assert row.error_code is ErrorCode.none
            wire.close()
        honest.goes_on()


def test_consumers_of_many_partitions_are_held_within_the_limit(tmp_path: Path) -> None:
    consumers, partitions = 40, 300
    with bounded_broker(tmp_path) as process, Bystander(process.bootstrap) as honest:
        with process.wire() as wire:
            create(wire, "t", partitions)
            for number in range(partitions):
                produce(wire, "t", batch([(None, bytes(100_000))]), partition=number)
        before = process.resident_bytes
        request = fetch_request("t", partitions=range(partitions), partition_max_bytes=30_000_000)
        with Highest(process) as highest:
            readers = [Wire(process.bootstrap, timeout=60) for _ in range(consumers)]
            for each in readers:
                each.send("fetch", 12, **request)
            for each in readers:
                rows = each.receive()[1].responses[0].partitions
                assert len(rows) == partitions
                each.close()
        assert highest.bytes - before < LIMIT + 2 * SLACK, "each of 40 asked for 30 MB"
        honest.goes_on()


def test_share_consumers_of_many_partitions_are_held_within_the_limit(tmp_path: Path) -> None:
    consumers, partitions = 20, 100
    with bounded_broker(tmp_path) as process, Bystander(process.bootstrap) as honest:
        with process.wire() as wire:
            topic_id = create(wire, "t", partitions)
            for number in range(partitions):
                produce(wire, "t", batch([(None, bytes(900_000))]), partition=number)
            for number in range(consumers):
                begin_share_group(wire, f"g{number}")
        before = process.resident_bytes
        with Highest(process) as highest:
            readers = [Wire(process.bootstrap, timeout=60) for _ in range(consumers)]
            for number, each in enumerate(readers):
                each.send("share_fetch", 1, **share_of(topic_id, f"g{number}", partitions))
            for each in readers:
                (topic,) = each.receive()[1].responses
                assert any(len(row.acquired_records) for row in topic.partitions)
                each.close()
        assert highest.bytes - before < LIMIT + SLACK, "each of 20 has 90 MB to read"
        honest.goes_on()


def begin_share_group(wire: Wire, group: str) -> None:
    configs = [
        {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"},
    ]
    resources = [{"resource_type": 32, "resource_name": group, "configs": configs}]
    wire.ask("incremental_alter_configs", 1, resources=resources, validate_only=False)
    answer = wire.ask(
        "share_group_heartbeat",
        1,
        group_id=group,
        member_id="m",
        member_epoch=0,
        subscribed_topic_names=["t"],
    )
    assert answer.error_code is ErrorCode.none


def share_of(topic_id: Any, group: str, partitions: int) -> dict[str, Any]:
    parts = [{"partition_index": number} for number in range(partitions)]
    return {
        "group_id": group,
        "member_id": "m",
        "share_session_epoch": 0,
        "max_wait": 10_000,
        "min_bytes": 1,
        "max_bytes": 50_000_000,
        "max_records": 500,
        "batch_size": 500,
        "topics": [{"topic_id": topic_id, "partitions": parts}],
    }


def test_slow_consumers_are_held_within_the_limit_and_others_read_on(tmp_path: Path) -> None:
    consumers = 200
    with bounded_broker(tmp_path) as process, Bystander(process.bootstrap) as honest:
        with process.wire() as wire:
            create(wire, "t")
            for _ in range(30):
                produce(wire, "t", batch([(None, bytes(1_000_000))]))
        before = process.resident_bytes
        request = fetch_request("t", partition_max_bytes=30_000_000)
        with Highest(process) as highest:
            slow = [Wire(process.bootstrap) for _ in range(consumers)]
            for each in slow:
                each.send("fetch", 12, **request)
            honest.goes_on(500)
            with process.wire() as reader:  # must get its turn, too: those who take nothing go
                answer = reader.ask("fetch", 12, **request).responses[0].partitions[0]
                assert len(read_batches(answer.records)) > 0
            for each in slow:
                each.close()
        assert highest.bytes - before < LIMIT + SLACK, "each of 200 asked for 30 MB"
        honest.goes_on()


def test_a_reader_who_takes_its_time_gets_everything(data: Path) -> None:
    with serving(data, {"queued.max.request.bytes": 4 * MEGABYTE}) as broker:
        broker.create("t")
        with broker.wire() as wire:
            for number in range(12):
                produce(wire, "t", batch([(None, b"%d" % number * 900_000)]))
            offset = 0
            while offset < end_offset(wire, "t"):
                request = fetch_request("t", offset, partition_max_bytes=30_000_000)
                answer = wire.ask("fetch", 12, **request).responses[0].partitions[0]
                found = read_batches(answer.records)
                assert found[0].base_offset == offset
                offset = found[-1].base_offset + 1
        until(lambda: broker.call(lambda: broker.broker.memory.held) == 0, "nothing to be held")


class Client:
    """A connection of a simulation: wants a frame at a time, and gives it back later."""

    client_host = "127.0.0.1"

    def __init__(self, budget: MemoryBudget, size: int) -> None:
        self.budget = budget
        self.size = size
        self.has = False

    def room(self) -> None:
        self.has = self.has or self.budget.reserve_frame(self, self.size)

    def drop_if_stalled(self, now: float) -> None:
        pass


@pytest.mark.parametrize("seed", range(20))
def test_everybody_gets_a_turn_and_the_sum_stays_within_the_limit(seed: int) -> None:
    dice = random.Random(seed)
    limit = dice.choice((1, 10, 50)) * LARGE_BYTES
    budget = MemoryBudget(limit)
    sizes = [
        dice.choice((10_000, 500_000, LARGE_BYTES + 1, limit // 3 + 1, 2 * limit))
        for _ in range(60)
    ]
    clients = [Client(budget, size) for size in sizes]
    for client in clients:
        client.room()
    bound, waiting = max(limit, limit // 4 + max(sizes)) + LARGE_BYTES, set(clients)
    while waiting:
        served = [client for client in waiting if client.has]
        assert served, f"seed {seed}: {len(waiting)} wait for nobody"
        assert budget.held <= bound, f"seed {seed}"
        done = dice.choice(served)
        waiting.discard(done)
        budget.release_frame(done.size)
    assert budget.held == 0


class Lister:
    """Asks for a list whenever it can."""

    client_host = "127.0.0.1"

    def __init__(self, memory: MemoryBudget, served: list[Lister]) -> None:
        self._memory, self._served = memory, served

    def room(self) -> None:
        if self._memory.may_list(self):
            self._served.append(self)

    def drop_if_stalled(self, now: float) -> None:
        raise AssertionError("none of them stalls")


def test_lists_go_to_whoever_had_least_lately_and_not_to_the_few_who_ask_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    monkeypatch.setattr(memory_module, "monotonic", lambda: now[0])
    memory, served = MemoryBudget(LIMIT), list[Lister]()
    busy = [Lister(memory, served) for _ in range(200)]
    for each in busy:
        each.room()
    for _ in busy:
        last = served[-1]
        now[0] += 2.0
        memory.listed(last)
        last.room()
    light, waited = Lister(memory, served), list[int]()
    for _ in range(20):
        light.room()
        before = len(served)
        while served[-1] is not light:
            last = served[-1]
            now[0] += 2.0
            memory.listed(last)
            last.room()
        waited.append(len(served) - before)
        now[0] += 0.01
        memory.listed(light)
    assert max(waited) <= 3, waited
    for _ in range(1_000):
        last = served[-1]
        now[0] += 2.0
        memory.listed(last)
        last.room()
    assert {*served[-900:]} == {*busy}, "all of them get on"
    for each in (*busy, light):
        memory.forget(each)
    assert memory._listed.keys() == {"127.0.0.1"}


class Stalled(Lister):
    """Holds memory, and does not move."""

    dropped = 0

    def drop_if_stalled(self, now: float) -> None:
        Stalled.dropped += 1


async def test_thousands_that_stall_are_dropped_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_S", -1.0)
    monkeypatch.setattr(Stalled, "dropped", 0)
    memory = MemoryBudget(1)
    memory.take("requests", 10)
    holders = tuple(Stalled(memory, []) for _ in range(2_000))
    assert not memory.may_read(holders[0])
    task = asyncio.ensure_future(memory.tick(0.0, holders, lambda: 0.0))
    while not task.done():
        before = Stalled.dropped
        await asyncio.sleep(0)
        assert Stalled.dropped - before <= turns.LOOKS_AT_ONCE
    assert Stalled.dropped == len(holders)
