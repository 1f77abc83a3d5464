"""Of two runs of a capture one goes on; a run that only slept for too long goes on by itself."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from headwater import testing
from headwater.broker.broker import Broker
from headwater.capture import removal
from headwater.capture import writer as capture_writer
from headwater.capture.change import Batch, Position
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import CaptureFenced, HeadwaterError, Interrupted, StartOver
from headwater.capture.positions import Run, decided_by_now, read_positions
from headwater.capture.removal import remove
from headwater.capture.runner import Runner
from headwater.capture.sqlite.source import SqliteSource
from headwater.capture.writer import Writer
from headwater.client import transaction
from headwater.client.cluster import Cluster
from headwater.client.options import cluster_settings
from tests.capture.core.reading import read
from tests.capture.postgres.running import eventually


@pytest.fixture(scope="module")
def log() -> Iterator[Broker]:
    with testing.broker() as running:
        yield running


class Shop:
    """A database, and runs of its capture."""

    def __init__(self, path: Path, log: Broker, name: str) -> None:
        self.config = CaptureConfig(name, f"sqlite:{path}", ("t",), bootstrap=log.bootstrap)
        self._app = sqlite3.connect(path, isolation_level=None)
        self._app.execute("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        self._threads: list[tuple[Runner, threading.Thread]] = []
        self.ended: dict[Runner, Exception] = {}

    def start(self, runner: Runner | None = None) -> Runner:
        runner = runner or Runner(self.config, heartbeat_s=0.2)
        thread = threading.Thread(target=self._run, args=(runner,), daemon=True)
        thread.start()
        self._threads.append((runner, thread))
        eventually("it streams", lambda: runner.status.phase == "streaming" or runner in self.ended)
        return runner

    def _run(self, runner: Runner) -> None:
        try:
            runner.run()
        except (HeadwaterError, KafkaException) as error:
            self.ended[runner] = error

    def insert(self, first: int, count: int = 1) -> None:
        self._app.execute("BEGIN")
        self._app.executemany("INSERT INTO t VALUES (?)", [(first + n,) for n in range(count)])
        self._app.execute("COMMIT")

    def read(self) -> list[int]:
        found = read(self.config.bootstrap, f"{self.config.name}.t")
        return sorted(record.value["after"]["id"] for record in found)

    def stop(self) -> None:
        for runner, _ in self._threads:
            runner.stop()
        eventually("all end", lambda: not any(thread.is_alive() for _, thread in self._threads))

    def close(self) -> None:
        self.stop()
        self._app.close()


@pytest.fixture
def shop(tmp_path: Path, log: Broker, request: pytest.FixtureRequest) -> Iterator[Shop]:
    with contextlib.closing(
        Shop(tmp_path / "a.db", log, f"shop{abs(hash(request.node.name))}")
    ) as one:
        yield one


def time_out(log: Broker, name: str) -> None:
    """What the log does to a transaction that took too long: abort it, and move its id's epoch."""
    settings = cluster_settings({"bootstrap.servers": log.bootstrap}, 30)
    with contextlib.closing(Cluster(settings)) as cluster:
        for own in (f"headwater-capture-{name}", f"headwater-capture-{name}-small"):
            transaction.begin(cluster, own, 60_000)


@pytest.mark.parametrize("count", [1, 500], ids=["few", "many"])
def test_a_run_that_slept_for_longer_than_its_transaction_goes_on_by_itself(
    shop: Shop, log: Broker, count: int
) -> None:
    runner = shop.start()
    shop.insert(1, count)
    eventually("they are there", lambda: len(shop.read()) == count)
    time_out(log, shop.config.name)
    shop.insert(1_001, count)
    eventually("it went on", lambda: len(shop.read()) == 2 * count or runner in shop.ended)
    assert shop.ended == {}
    assert shop.read() == [*range(1, count + 1), *range(1_001, 1_001 + count)]
    assert runner.status.restarts == 1


@pytest.mark.parametrize("count", [1, 500], ids=["few", "many"])
def test_of_two_runs_the_younger_goes_on_and_the_elder_ends_with_a_sentence(
    shop: Shop, log: Broker, count: int
) -> None:
    elder = shop.start()
    younger = shop.start()
    shop.insert(1, count)
    eventually("the elder ended", lambda: elder in shop.ended)
    assert isinstance(shop.ended[elder], CaptureFenced)
    time_out(log, shop.config.name)
    shop.insert(1_001, count)
    eventually("the younger went on", lambda: len(shop.read()) == 2 * count)
    assert set(shop.ended) == {elder} and younger not in shop.ended


def test_a_run_that_was_away_while_another_began_fences_nobody(log: Broker) -> None:
    away, other = Run(), Run()
    for run in (away, other):
        writer = Writer("away", log.bootstrap, run=run)
        writer.open()
        writer.close()
    going_on = Writer("away", log.bootstrap, run=other)
    going_on.open()
    back = Writer("away", log.bootstrap, run=away)
    with pytest.raises(CaptureFenced):
        back.open()
    back.close()
    going_on.write(Batch({"n": 1}))
    going_on.close()
    assert read_positions(log.bootstrap, ["away"])["away"]["position"] == {"n": 1}


def test_a_run_that_slept_goes_on_where_the_log_stumbles_as_it_looks_who_has_the_capture(
    shop: Shop, log: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = shop.start()
    asked: list[str] = []

    def stumbling(admin: AdminClient, topic: str) -> tuple[int, int]:
        asked.append(topic)
        if len(asked) == 1:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return decided_by_now(admin, topic)

    monkeypatch.setattr(capture_writer, "decided_by_now", stumbling)
    time_out(log, shop.config.name)
    shop.insert(1)
    eventually("it went on", lambda: shop.read() == [1] or runner in shop.ended)
    assert shop.ended == {} and len(asked) > 1


class Emptied(SqliteSource):
    """Has lost what comes next, once."""

    lost = True

    def stream(self, position: Position) -> Iterator[Batch]:
        if Emptied.lost:
            Emptied.lost = False
            raise StartOver("its changes are gone")
        return super().stream(position)


def test_a_run_that_begins_anew_goes_on_where_the_log_stumbles_as_it_forgets(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Emptied, "lost", True)
    shop.insert(1)
    opened = Writer.open
    refused: list[Writer] = []

    def stumbling(writer: Writer) -> Position | None:
        if not Emptied.lost and not refused:
            refused.append(writer)
            raise Interrupted("the log cannot be written")
        return opened(writer)

    monkeypatch.setattr(Writer, "open", stumbling)
    said: list[str] = []
    runner = shop.start(Runner(shop.config, said.append, open_source=Emptied, heartbeat_s=0.2))
    eventually("anew", lambda: said.count("streaming") == 2 or runner in shop.ended)
    assert shop.ended == {} and refused
    told = [sentence.partition(";")[0] for sentence in said]
    assert told[-4:] == [
        "its changes are gone",
        "the log cannot be written",
        "the snapshot goes on",
        "streaming",
    ]


def test_a_run_that_is_stopped_while_the_database_cannot_forget_ends(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Emptied, "lost", True)
    monkeypatch.setattr(removal, "FORGET_S", 3_600.0)
    asked: list[SqliteSource] = []

    def busy(source: SqliteSource) -> None:
        asked.append(source)
        raise Interrupted("the database is busy")

    monkeypatch.setattr(SqliteSource, "forget", busy)
    runner = shop.start(Runner(shop.config, open_source=Emptied))
    eventually("it was asked", lambda: bool(asked))
    shop.stop()
    assert shop.ended == {} and runner.status.phase != "streaming"


def test_a_run_whose_capture_is_removed_ends_and_leaves_no_position(
    shop: Shop, log: Broker
) -> None:
    runner = shop.start()
    remove(shop.config, topics=True)
    with contextlib.suppress(sqlite3.OperationalError):  # its table may be gone with its triggers
        shop.insert(1)
    time_out(log, shop.config.name)
    eventually("it ended", lambda: runner in shop.ended)
    assert read_positions(log.bootstrap, [shop.config.name]) == {}
