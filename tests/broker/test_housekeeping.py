"""The broker's duties beside the traffic: none of them ends, and none waits for another."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.broker import cleaner, excisions
from headwater.log import compaction, excision
from headwater.testing.clock import ManualClock
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, create, serving
from tests.broker.test_compaction import EAGER, until_compacted
from tests.broker.test_compaction import SETTINGS as CLEANING
from tests.broker.test_excision_requests import ask, good, wait_for
from tests.compat.asking import EARLIEST, fetch, offset_at, produce
from tests.compat.batches import NOW_MS, batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

HOUR_MS = 3_600_000
SMALL = {"internal_segment_bytes": 1000}
IDLE = {"connections.max.idle.ms": 60_000}


def put(wire: Wire, topic: str, count: int, at: int = NOW_MS) -> None:
    for number in range(count):
        key = b"k" if number % 2 else b"other-%d" % number
        row = produce(wire, topic, batch([(key, bytes(400))], timestamps=[at]))
        assert row.error_code is ErrorCode.none, row


def first(broker: Serving, topic: str) -> int:
    return broker.call(lambda: int(broker.log(topic).start_offset))


def failing(broker: Serving, task: str) -> bool:
    return broker.call(lambda: broker.broker.health.task(task).is_failing)


def test_a_partition_whose_retention_fails_keeps_no_other_from_its_turn(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        for topic in ("a-bad", "b-good"):
            create(wire, topic, retention_bytes=2000, **SMALL)
            put(wire, topic, 20)
        with disk.failing("remove", name="a-bad-0/*"):
            broker.run(broker.broker.housekeeping.retain())
            assert first(broker, "b-good") > 0
            assert failing(broker, "retention")
            told = broker.broker.health.tasks["retention"].last_failure
            assert told is not None and told.startswith("a-bad-0: OSError")


@pytest.mark.parametrize("duty", ["checkpoint", "sync_lazy"])
def test_a_duty_that_fails_in_any_way_keeps_the_others_from_nothing(
    data: Path, monkeypatch: pytest.MonkeyPatch, duty: str
) -> None:
    clock = ManualClock(time.time_ns() // 1_000_000)
    with serving(data, IDLE, clock=clock) as broker:
        monkeypatch.setattr(broker.broker.store, duty, _raises)
        with broker.wire() as idle:
            idle.ask("api_versions", 3)
            hours_until(clock, lambda: failing(broker, "checkpoints"), "the failure")
            hours_until(clock, lambda: not broker.broker.connections, "the idle one to be closed")
        monkeypatch.undo()
        hours_until(clock, lambda: not failing(broker, "checkpoints"), "the next turn")


def hours_until(clock: ManualClock, question: Callable[[], bool], what: str) -> None:
    """Hour by hour: one that passes while a turn is under way begins no other."""

    def asked() -> bool:
        clock.advance(HOUR_MS)
        return question()

    until(asked, what)


def _raises(*_: object) -> None:
    raise ZeroDivisionError("something that nobody thought of")


def test_the_cleaner_survives_anything_and_cleans_the_others(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = compaction.plan

    def plan_or_fail(log: compaction.PartitionLog, *words: int, **more: object) -> object:
        if log.directory.name == "bad-0":
            raise TypeError("something that nobody thought of")
        return plan(log, *words, **more)  # type: ignore[arg-type]

    with serving(data, CLEANING) as broker, broker.wire() as wire:
        monkeypatch.setattr(compaction, "plan", plan_or_fail)
        for topic in ("bad", "good"):
            create(wire, topic, **EAGER)
            put(wire, topic, 200)
        until_compacted(broker, "good", 100)
        until(lambda: broker.broker.health.task("cleaner").failures > 0, "the failure to be shown")
        monkeypatch.undo()


def test_the_cleaner_survives_a_child_that_says_nonsense(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaner, "RETRY_MS", 0)
    command = compaction.command
    with serving(data, CLEANING) as broker, broker.wire() as wire:
        monkeypatch.setattr(compaction, "command", lambda _: [sys.executable, "-c", "print(1)"])
        create(wire, "t", **EAGER)
        put(wire, "t", 200)
        until(lambda: broker.broker.health.task("cleaner").failures > 1, "the failure to be shown")
        monkeypatch.setattr(compaction, "command", command)
        until_compacted(broker, "t", 100)


# ---- slow work ---------------------------------------------------------------------------------


def slow(command: Callable[[Path], list[str]], flag: Path) -> Callable[[Path], list[str]]:
    """The same process, but it does not begin before the file is there."""
    wait = "import os, sys, time\nwhile not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
    wait += "os.execv(sys.argv[2], sys.argv[2:])"
    return lambda directory: [sys.executable, "-c", wait, str(flag), *command(directory)]


def test_a_long_excision_holds_up_neither_retention_nor_compaction(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excisions, "RETRY_SECONDS", 0.1)
    flag = tmp_path / "go"
    monkeypatch.setattr(excision, "command", slow(excision.command, flag))
    with serving(data, CLEANING) as broker, broker.wire() as wire:
        create(wire, "t", retention_bytes=4000, **SMALL)
        create(wire, "ring", retention_bytes=2000, **SMALL)
        create(wire, "compacted", **EAGER)
        for topic in ("t", "ring"):
            put(wire, topic, 20)
        ask(broker, json.dumps(good(1)).encode())
        partition = broker.broker.topics.partitions["t", 0]
        until(partition.rewriting.locked, "the excision")
        until(lambda: not partition.maintenance.locked(), "its process")
        broker.run(broker.broker.housekeeping.retain())
        assert first(broker, "ring") > 0
        kept_from = first(broker, "t")
        assert kept_from > 0, "also of the topic that is being excised"
        put(wire, "compacted", 200)
        until_compacted(broker, "compacted", 100)
        assert partition.rewriting.locked(), "or nothing was held up"
        flag.touch()
        (line,) = wait_for(broker, 1)
        assert line["status"] == "done"
        assert offset_at(wire, "t", EARLIEST).offset == kept_from
        for offset in range(kept_from, 20):
            assert fetch(wire, "t", offset, max_wait=0).error_code is ErrorCode.none


def test_a_long_compaction_holds_up_no_retention(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "go"
    monkeypatch.setattr(compaction, "command", slow(compaction.command, flag))
    with serving(data, CLEANING) as broker, broker.wire() as wire:
        both = {**EAGER, "cleanup_policy": "compact,delete", "retention_bytes": 30_000}
        create(wire, "t", **both)
        create(wire, "ring", retention_bytes=2000, **SMALL)
        put(wire, "t", 200)
        put(wire, "ring", 20)
        partition = broker.broker.topics.partitions["t", 0]
        until(partition.rewriting.locked, "the compaction")
        broker.run(broker.broker.housekeeping.retain())
        assert first(broker, "ring") > 0
        assert first(broker, "t") > 0
        flag.touch()
        until(lambda: not partition.rewriting.locked(), "its end")


def test_a_stop_waits_for_segments_that_are_being_replaced(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t", **SMALL)
        put(wire, "t", 20)
        with disk.held("rename", "t-0/*") as held:
            ask(broker, json.dumps(good(1)).encode())
            held.until_reached()
            stopping = broker.begin(broker.broker.excisions.stop())
            broker.run(_a_moment())
            assert not stopping.done(), "it is half done"
            held.release()
            stopping.result(30)
        assert not list((data / "t-0").glob("*.swap"))


async def _a_moment() -> None:
    pass
