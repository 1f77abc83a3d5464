"""Files that somebody removes, moves or replaces under a running broker: what nobody would find again after
the next start must not be acknowledged."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.broker.serving import create, delete, serving
from tests.broker.test_failing_disk import put, values
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode


def removed(log: Path) -> None:
    log.unlink()


def replaced(log: Path) -> None:
    """As a copy is put back, or a program saves a file that it has changed."""
    copy = log.with_name("copy")
    copy.write_bytes(log.read_bytes())
    copy.rename(log)


def folder_removed(log: Path) -> None:
    shutil.rmtree(log.parent)


def folder_moved(log: Path) -> None:
    log.parent.rename(log.parent.with_name("moved"))


@pytest.mark.parametrize("harm", [removed, replaced, folder_removed, folder_moved])
def test_nothing_is_acknowledged_that_no_start_would_find(
    data: Path, harm: Callable[[Path], None]
) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t")
        broker.create("other")
        assert put(wire, b"one") is ErrorCode.none
        (log,) = (data / "t-0").glob("*.log")
        harm(log)
        assert put(wire, b"lost") is ErrorCode.kafka_storage_error
        assert put(wire, b"lost, too") is ErrorCode.kafka_storage_error
        assert values(wire) == [b"one"], (
            "what was acknowledged before is served as long as it can be"
        )
        assert put(wire, b"elsewhere", "other") is ErrorCode.none
    with serving(data) as broker, broker.wire() as wire:
        assert put(wire, b"again") is ErrorCode.none
        assert set(values(wire)) <= {b"one", b"again"}


def test_where_nobody_waits_for_the_disk_it_is_noticed_with_the_next_sync(data: Path) -> None:
    with serving(data, durability="os") as broker, broker.wire() as wire:
        broker.create("t")
        assert put(wire, b"one") is ErrorCode.none
        (log,) = (data / "t-0").glob("*.log")
        removed(log)
        until(lambda: put(wire, b"lost") is ErrorCode.kafka_storage_error, "it is noticed")


def test_a_topic_whose_folder_is_gone_can_be_deleted_and_made_again(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t")
        assert put(wire, b"one") is ErrorCode.none
        shutil.rmtree(data / "t-0")
        assert put(wire, b"lost") is ErrorCode.kafka_storage_error
        assert delete(wire, "t") is ErrorCode.none
        create(wire, "t")
        assert put(wire, b"two") is ErrorCode.none
        assert values(wire) == [b"two"]


def test_records_that_are_gone_at_a_start_are_named_as_long_as_the_broker_runs(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        broker.create("t")
        for _ in range(3):
            assert put(wire, b"one") is ErrorCode.none
    (log,) = (data / "t-0").glob("*.log")
    log.unlink()
    with serving(data) as broker:
        assert "offset 0 to 2 are missing" in broker.broker.health.damage["t-0"]
