"""No false alarms: a folder that a broker has left, in order or by kill -9, has nothing wrong with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from confluent_kafka import Producer

from headwater.broker.inspection.check import inspect
from headwater.broker.inspection.repair import repair
from tests.broker.inspection.world import World, checked, read_folder
from tests.broker.processes import broker_process
from tests.broker.serving import create, serving
from tests.compat.asking import find_coordinator, produce
from tests.compat.batches import batch
from tests.compat.transacting import Transactor
from tests.compat.wire import ErrorCode


def test_nothing_is_wrong_after_a_clean_stop(world: World) -> None:
    report = checked(world.data)
    assert report.wrong == []
    assert report.is_clean
    assert report.records > 400


def test_quick_finds_nothing_wrong_either(world: World) -> None:
    assert inspect(world.data, quick=True).wrong == []


def test_a_repair_of_a_healthy_folder_changes_nothing(world: World) -> None:
    names = sorted(world.data.rglob("*"))
    outcome = repair(world.data)
    assert outcome.aside is None
    assert sorted(world.data.rglob("*")) == names
    assert read_folder(world.data) == world.uncommitted


def test_offsets_that_were_committed_with_a_transaction_are_as_good_as_any(data: Path) -> None:
    with serving(data) as broker, broker.wire() as wire:
        create(wire, "t")
        find_coordinator(wire, "readers")
        producer = Transactor(wire, "till").init()
        for commit in (True, False):
            assert producer.send_offsets("readers", "t", {0: 0}) is ErrorCode.none
            producer.end(commit)
    assert checked(data).wrong == []


@pytest.mark.parametrize("durability", ["disk", "os"])
def test_nothing_is_wrong_after_kill_9_under_load(tmp_path: Path, durability: str) -> None:
    data = tmp_path / "data"
    for _ in range(3):
        words = ["--durability", durability]
        with broker_process(
            data,
            "auto.create.topics.enable=true",
            "log.cleaner.backoff.ms=50",
            "log.segment.bytes=1048576",
            words=words,
        ) as process:
            _write_until_killed(process)
        report = checked(data)
        assert report.wrong == [], [(each.where, each.what) for each in report.wrong]
        assert not report.is_clean


def test_a_segment_that_was_begun_before_the_one_in_front_was_written_is_no_loss(
    tmp_path: Path,
) -> None:
    """With durability=os, where nothing tells how much was acknowledged."""
    killed = tmp_path / "killed"
    with serving(tmp_path / "data") as broker, broker.wire() as wire:
        create(wire, "lazy", durability="os")
        produce(wire, "lazy", batch([(b"key", b"value")]))
        shutil.copytree(tmp_path / "data", killed)
    for base in (30, 60):
        (killed / "lazy-0" / f"{base:020d}.log").touch()
    assert checked(killed).wrong == []
    with serving(killed) as broker:
        assert broker.call(lambda: broker.log("lazy").next_offset) == 1


def _write_until_killed(process: object) -> None:
    bootstrap = process.bootstrap  # type: ignore[attr-defined]
    plain = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1})
    till = Producer({"bootstrap.servers": bootstrap, "transactional.id": "till"})
    till.init_transactions()
    killer = threading.Timer(1.5, process.kill)  # type: ignore[attr-defined]
    killer.start()
    number = 0
    while killer.is_alive():
        number += 1
        try:
            plain.produce("plain", os.urandom(500), b"%d" % (number % 100))
            if number % 200 == 0:
                till.begin_transaction()
                till.produce("paid", b"value")
                (till.abort_transaction if number % 400 else till.commit_transaction)(2)
        except Exception:
            killer.join()
        plain.poll(0)
    plain.purge()
    till.purge()


def test_the_command_says_that_all_is_right(world: World) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "headwater", "check", str(world.data)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "Right: " in ran.stdout


def test_what_was_read_before_is_read_again(world: World) -> None:
    assert read_folder(world.data) == world.uncommitted
    assert read_folder(world.data, committed=True) == world.committed
