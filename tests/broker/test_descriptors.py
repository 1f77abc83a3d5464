"""Files are given back: whatever a log goes through, the broker holds no descriptor of what is gone."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.testing import ManualClock
from tests.broker.disks import HandDisk
from tests.broker.serving import create, delete, serving
from tests.compat.asking import fetch, produce
from tests.compat.batches import NOW_MS, batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/fd").is_dir(), reason="the system does not tell which files are open"
)


def open_files(folder: Path) -> list[str]:
    """Names of the files below a folder that this process has open; deleted ones say so."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            target = str(entry.readlink())
        except OSError:
            continue  # closed meanwhile
        if target.startswith(f"{folder}/"):
            found.append(target.removeprefix(f"{folder}/"))
    return sorted(found)


def test_a_stopped_broker_has_nothing_open(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", 5, internal_segment_bytes=500)
        for number in range(30):
            produce(wire, "t", batch([(None, bytes(200))]), partition=number % 5)
            fetch(wire, "t", 0, partitions=[number % 5])
        assert open_files(data)
    assert open_files(data) == []


def test_a_deleted_topic_has_nothing_open(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        before = open_files(data)
        for _ in range(5):
            create(wire, "t", 3, internal_segment_bytes=500)
            for number in range(12):
                produce(wire, "t", batch([(None, bytes(300))]), partition=number % 3)
            delete(wire, "t")
        _only(data, lambda name: name.startswith("__headwater"), before)


def test_retention_leaves_nothing_open(data: Path) -> None:
    clock = ManualClock(NOW_MS)
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        create(wire, "t", retention_ms=1000, internal_segment_bytes=500)
        for _ in range(20):
            produce(wire, "t", batch([(None, bytes(300))], timestamps=[NOW_MS]))
            fetch(wire, "t", 0)
        clock.advance(5000)
        broker.run(broker.broker.housekeeping.retain())
        _only(data, _is_there(data))


def test_failed_writes_leave_nothing_open(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        create(wire, "t")
        produce(wire, "t", batch())
        before = open_files(data)
        for _ in range(10):
            with disk.failing("write", code=errno.ENOSPC, name="t-0/*.log"):
                refused = produce(wire, "t", batch())
                assert refused.error_code is ErrorCode.kafka_storage_error
            assert produce(wire, "t", batch()).error_code is ErrorCode.none
        assert len(open_files(data)) <= len(before) + 1
    assert open_files(data) == []


def test_compaction_leaves_nothing_open(data: Path) -> None:
    settings = {"log.cleaner.enable": True, "log.cleaner.backoff.ms": 50}
    eager = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.01}
    with serving(data, settings) as broker, broker.wire() as wire:
        create(wire, "t", internal_segment_bytes=1000, **eager)
        for number in range(60):
            produce(wire, "t", batch([(b"k%d" % (number % 3), bytes(200))]))
            fetch(wire, "t", number)
        log = broker.log("t")
        base = broker.call(lambda: log.active.base_offset)
        until(lambda: broker.call(lambda: log.cleaned_offset) >= base, "compaction")
        _only(data, _is_there(data))


def test_sealed_segments_are_closed_when_nobody_reads_them(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t", internal_segment_bytes=500)
        for number in range(40):
            produce(wire, "t", batch([(None, bytes(300))]))
            fetch(wire, "t", number)
        broker.run(broker.broker.housekeeping._release())
        logs = [name for name in open_files(data) if name.startswith("t-0/") and ".log" in name]
        assert len(logs) == 1, "the active one"
        assert fetch(wire, "t", 0).records, "and opened again for a reader"


def _is_there(data: Path) -> Callable[[str], bool]:
    return lambda name: "(deleted)" not in name and (data / name).exists()


def _only(data: Path, allowed: Callable[[str], bool], before: list[str] | None = None) -> None:
    """What is open must be allowed; a moment may pass until the last reader is gone."""

    def rest() -> list[str]:
        return [
            name for name in open_files(data) if not allowed(name) and name not in (before or ())
        ]

    until(lambda: not rest(), "the rest to be closed")
