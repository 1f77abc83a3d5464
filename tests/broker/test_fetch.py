"""Fetch: when it waits, how much it gives, who is served first, and what it does with damage."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.api import k01_fetch
from headwater.broker.fetch_sessions import LOOKS
from headwater.broker.slices import SLICE_ELEMENTS
from tests.broker.bystander import Bystander
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, create, delete, serving
from tests.compat.asking import end_offset, fetch, fetch_request, produce
from tests.compat.batches import batch, read_batches
from tests.compat.waiting import AT_ONCE_SECONDS, LONG_MS, until
from tests.compat.wire import ErrorCode, Wire

BATCH = batch([(None, bytes(1000))])


def put(wire: Wire, topic: str, count: int, partition: int = 0, records: bytes = BATCH) -> None:
    for _ in range(count):
        assert produce(wire, topic, records, partition=partition).error_code is ErrorCode.none


def sizes(answer: Any) -> dict[int, int]:
    """Bytes of records for each partition that has some."""
    parts = answer.responses[0].partitions if answer.responses else ()
    return {part.partition_index: len(part.records) for part in parts if part.records}


# ---- waiting -------------------------------------------------------------------------------------------


def test_an_empty_answer_comes_after_max_wait_and_not_before(wire: Wire, topic: str) -> None:
    create(wire, topic)
    begin = time.monotonic()
    assert not (fetch(wire, topic, max_wait=300).records or b"")
    assert 0.29 <= time.monotonic() - begin < AT_ONCE_SECONDS


def test_without_min_bytes_nobody_waits(wire: Wire, topic: str) -> None:
    create(wire, topic)
    begin = time.monotonic()
    fetch(wire, topic, max_wait=LONG_MS, min_bytes=0)
    assert time.monotonic() - begin < AT_ONCE_SECONDS


def test_it_waits_until_there_are_min_bytes_over_all_partitions(
    shared: Serving, wire: Wire, topic: str
) -> None:
    create(wire, topic, 3)
    wanted = 5 * len(BATCH)
    with shared.wire() as reader:
        asked = fetch_request(topic, partitions=[0, 1, 2], max_wait=LONG_MS, min_bytes=wanted)
        reader.send("fetch", 12, **asked)
        for number in range(4):
            put(wire, topic, 1, number % 3)
        waiting = shared.broker.sessions.waiting
        assert shared.call(lambda: len(waiting)) == 1, "four of five are there"
        put(wire, topic, 1, 1)
        answer = reader.receive()[1]
        assert sum(sizes(answer).values()) >= wanted


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("goes", [False, True], ids=["grows", "goes"])
def test_what_happens_while_very_many_partitions_are_looked_at_is_not_missed(
    data: Path, monkeypatch: pytest.MonkeyPatch, count: int, goes: bool
) -> None:
    """Between the look at a slice and the wait: it counts, or ends that."""
    partitions, look = 3 * SLICE_ELEMENTS, k01_fetch._Fetch._read_in_slices
    with serving(data) as broker, broker.wire() as wire, broker.wire() as reader:
        create(wire, "many", partitions)
        create(wire, "other")
        steps = [lambda: delete(wire, "other") if goes else put(wire, "many", 1, 3)]

        async def interrupted(self: Any, **how: Any) -> Any:
            rows = await look(self, **how)
            if steps:
                await asyncio.get_running_loop().run_in_executor(None, steps.pop())
            return rows

        monkeypatch.setattr(k01_fetch._Fetch, "_read_in_slices", interrupted)
        asked = fetch_request("many", partitions=range(partitions), max_wait=LONG_MS)
        asked["min_bytes"] = count * len(BATCH)
        asked["topics"] += fetch_request("other")["topics"]
        reader.send("fetch", 12, **asked)
        if not goes:
            until(lambda: not steps, "its partitions to be looked at")
            until(lambda: broker.log("many", 3).next_offset == 1, "one of them to have grown")
            for number in range(1, count):
                put(wire, "many", 1, number)
        answer = reader.receive()[1]
        assert goes or sum(sizes(answer).values()) == count * len(BATCH)
        assert not broker.call(lambda: len(broker.broker.sessions.waiting))


def test_few_fetches_of_very_many_partitions_are_worked_on_at_a_time(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What each of them finds is memory that nobody else has until it is written."""
    partitions, at_work, most, look = 2 * SLICE_ELEMENTS, [0], [0], k01_fetch._Fetch._read_in_slices

    async def counted(self: Any, **how: Any) -> Any:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        try:
            return await look(self, **how)
        finally:
            at_work[0] -= 1

    with serving(data) as broker, broker.wire() as wire, ExitStack() as stack:
        create(wire, "many", partitions)
        monkeypatch.setattr(k01_fetch._Fetch, "_read_in_slices", counted)
        readers = [stack.enter_context(broker.wire()) for _ in range(3 * LOOKS)]
        asked = fetch_request("many", partitions=range(partitions), max_wait=LONG_MS)
        for reader in readers:
            reader.send("fetch", 12, **asked)
        waiting = broker.broker.sessions.waiting
        until(lambda: broker.call(lambda: len(waiting)) == len(readers), "all of them to wait")
        put(wire, "many", 1, 3)
        for reader in readers:
            assert sizes(reader.receive()[1]) == {3: len(BATCH)}
        assert most[0] == LOOKS
        assert broker.broker.sessions.looks._free == LOOKS


def test_what_is_there_already_counts(shared: Serving, wire: Wire, topic: str) -> None:
    create(wire, topic)
    put(wire, topic, 2)
    with shared.wire() as reader:
        asked = fetch_request(topic, max_wait=LONG_MS, min_bytes=3 * len(BATCH))
        reader.send("fetch", 12, **asked)
        until(lambda: shared.call(lambda: len(shared.broker.sessions.waiting)), "it to wait")
        put(wire, topic, 1)
        assert sizes(reader.receive()[1]) == {0: 3 * len(BATCH)}


def test_an_error_in_one_partition_is_told_at_once(wire: Wire, topic: str) -> None:
    create(wire, topic, 2)
    asked = fetch_request(topic, partitions=[0, 1], max_wait=LONG_MS)
    asked["topics"][0]["partitions"][1]["fetch_offset"] = 99
    begin = time.monotonic()
    parts = wire.ask("fetch", 12, **asked).responses[0].partitions
    assert [part.error_code for part in parts] == [ErrorCode.none, ErrorCode.offset_out_of_range]
    assert time.monotonic() - begin < AT_ONCE_SECONDS


def test_a_consumer_at_the_end_hears_of_a_record_at_once(
    shared: Serving, wire: Wire, topic: str
) -> None:
    create(wire, topic)
    with shared.wire() as reader:
        for number in range(20):
            reader.send("fetch", 12, **fetch_request(topic, number, max_wait=LONG_MS))
            until(lambda: shared.call(lambda: len(shared.broker.sessions.waiting)), "it to wait")
            begin = time.monotonic()
            put(wire, topic, 1)
            (found,) = read_batches(reader.receive()[1].responses[0].partitions[0].records)
            assert found.base_offset == number
            assert time.monotonic() - begin < AT_ONCE_SECONDS


# ---- limits ----------------------------------------------------------------------------------------------


def test_no_answer_is_larger_than_asked_for(wire: Wire, topic: str) -> None:
    create(wire, topic, 4)
    for partition in range(4):
        put(wire, topic, 10, partition)
    for limit in (2500, 6000, 20_000):
        asked = fetch_request(topic, partitions=range(4), max_bytes=limit)
        found = sizes(wire.ask("fetch", 12, **asked))
        assert limit - 4 * len(BATCH) < sum(found.values()) <= limit
    asked = fetch_request(topic, partitions=range(4), partition_max_bytes=2500)
    assert all(
        len(BATCH) * 2 <= size <= 2500 for size in sizes(wire.ask("fetch", 12, **asked)).values()
    )


def test_the_first_batch_comes_whole_however_large_it_is(wire: Wire, topic: str) -> None:
    create(wire, topic, 2)
    large = batch([(None, bytes(200_000))])
    for partition in (0, 1):
        put(wire, topic, 2, partition, large)
    limits: dict[str, Any]
    for limits in ({"max_bytes": 1}, {"partition_max_bytes": 1}, {"max_bytes": 0}):
        found = sizes(wire.ask("fetch", 12, **fetch_request(topic, partitions=[0, 1], **limits)))
        assert found == {0: len(large)}, "one batch of one partition, so that readers get on"


def test_what_does_not_fit_whole_is_cut_or_left_out_and_read_next_time(
    wire: Wire, topic: str
) -> None:
    create(wire, topic)
    for size in range(0, 2000, 37):
        put(wire, topic, 1, records=batch([(None, bytes(size))]))
    for limit in (1, 61, 100, 1000, 2500):
        offset = 0
        while offset < 55:
            answer = fetch(wire, topic, offset, partition_max_bytes=limit, max_wait=1)
            whole = read_batches(answer.records)
            assert whole
            assert whole[0].base_offset == offset
            offset = whole[-1].last_offset + 1
        assert offset == 55


def test_the_brokers_own_limit_is_kept(data: Path) -> None:
    with serving(data, {"fetch.max.bytes": 5000}) as broker, broker.wire() as wire:
        create(wire, "t", 3)
        for partition in range(3):
            put(wire, "t", 10, partition)
        found = sizes(wire.ask("fetch", 12, **fetch_request("t", partitions=[0, 1, 2])))
        assert sum(found.values()) <= 5000


def test_an_offset_inside_a_batch_gives_that_batch(wire: Wire, topic: str) -> None:
    create(wire, topic)
    put(wire, topic, 3, records=batch([(None, b"v")] * 10))
    for offset in range(30):
        found = read_batches(fetch(wire, topic, offset).records)
        assert found[0].base_offset == offset // 10 * 10
        assert found[-1].last_offset == 29


# ---- old data and damage ---------------------------------------------------------------------------------


def test_reading_from_the_disk_makes_nobody_else_wait(data: Path) -> None:
    """Someone replays what is not in memory, and the disk is slow."""
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire, broker.wire() as slow:
        create(wire, "old")
        put(wire, "old", 3)
        disk.cold = "old-0/*.log"
        with disk.held("read", "old-0/*.log") as held, Bystander(broker.bootstrap) as bystander:
            slow.send("fetch", 12, **fetch_request("old"))
            held.until_reached()
            bystander.goes_on(20)
            assert produce(wire, "old", BATCH).base_offset == 3, "not even its own producers"
            held.release()
            found = read_batches(slow.receive()[1].responses[0].partitions[0].records)
            assert [each.base_offset for each in found][:3] == [0, 1, 2]


def test_many_who_replay_at_once_do_not_stop_the_rest(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "old")
        put(wire, "old", 3)
        disk.cold = "old-0/*.log"
        with disk.held("read", "old-0/*.log") as held, Bystander(broker.bootstrap) as bystander:
            replayers = [Wire(broker.bootstrap) for _ in range(12)]
            for each in replayers:
                each.send("fetch", 12, **fetch_request("old"))
            held.until_reached()
            bystander.goes_on(20)
            held.release()
            for each in replayers:
                assert len(read_batches(each.receive()[1].responses[0].partitions[0].records)) == 3
                each.close()


@pytest.mark.parametrize("position", [61 + 30, 20, 50], ids=["records", "checksum", "header"])
def test_damage_in_the_middle_is_told_at_that_batch_and_nowhere_else(
    data: Path, position: int
) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t")
        create(wire, "sound")
        put(wire, "t", 9)
        put(wire, "sound", 1)
    flip(data / "t-0" / "00000000000000000000.log", 4 * len(BATCH) + position)
    with serving(data) as broker, broker.wire() as wire:
        codes = [fetch(wire, "t", offset, max_wait=1).error_code for offset in range(9)]
        assert codes[4] is ErrorCode.corrupt_message
        assert set(codes[:4] + codes[5:]) == {ErrorCode.none}
        before = read_batches(fetch(wire, "t", 0).records)
        assert [each.base_offset for each in before] == [0, 1, 2, 3], (
            "up to the damage, and no more"
        )
        behind = read_batches(fetch(wire, "t", 5).records)
        assert [each.base_offset for each in behind] == [5, 6, 7, 8]
        both = fetch_request("t", 4, max_wait=1)
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 10_000}
        both["topics"].append({"topic": "sound", "partitions": [part]})
        answers = wire.ask("fetch", 12, **both).responses
        assert answers[1].partitions[0].records, "other partitions of the request are served"
        assert produce(wire, "t", BATCH).base_offset == 9, "and it goes on taking records"
        assert end_offset(wire, "t") == 10


def test_damage_to_a_batchs_length_is_told_and_what_follows_is_found_again(data: Path) -> None:
    """The next batch is no longer where this one says it is."""
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", index_interval_bytes=1)
        put(wire, "t", 9)
    flip(data / "t-0" / "00000000000000000000.log", 4 * len(BATCH) + 10)
    with serving(data) as broker, broker.wire() as wire:
        assert fetch(wire, "t", 4, max_wait=1).error_code is ErrorCode.corrupt_message
        for offset in (0, 1, 2, 3, 6, 7, 8):
            answer = fetch(wire, "t", offset, max_wait=1)
            assert answer.error_code is ErrorCode.none, offset
            assert read_batches(answer.records)[0].base_offset == offset


def test_damage_is_reported_once_however_often_it_is_read(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t")
        put(wire, "t", 3)
    flip(data / "t-0" / "00000000000000000000.log", len(BATCH) + 100)
    with serving(data) as broker, broker.wire() as wire:
        for _ in range(20):
            fetch(wire, "t", 1, max_wait=1)
    said = [each.getMessage() for each in caplog.records if "damaged" in each.getMessage()]
    assert len(said) == 1
    assert "00000000000000000000.log is damaged at byte" in said[0]
    assert "not served" in said[0]


def flip(path: Path, position: int) -> None:
    """One bit rots."""
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def test_readers_and_writers_at_full_speed_see_every_record_once_and_in_order(
    shared: Serving, topic: str
) -> None:
    shared.create(topic, internal_segment_bytes=50_000)
    total, problems = 2000, []

    def read() -> None:
        try:
            with shared.wire() as wire:
                offset = 0
                while offset < total:
                    for each in read_batches(fetch(wire, topic, offset, max_wait=200).records):
                        assert each.base_offset == offset
                        assert each.pairs == [(None, b"%d" % offset * 20)]
                        offset += 1
        except BaseException as error:
            problems.append(error)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(3)]
    for reader in readers:
        reader.start()
    with shared.wire() as wire:
        data = [{"name": topic, "partition_data": []}]
        for number in range(total):
            row = {"index": 0, "records": batch([(None, b"%d" % number * 20)])}
            data[0]["partition_data"] = [row]
            wire.send("produce", 9, acks=-1, timeout=5000, topic_data=data)
            if number >= 50:
                wire.receive_bytes()
        for _ in range(50):
            wire.receive_bytes()
    for reader in readers:
        reader.join()
    assert not problems
