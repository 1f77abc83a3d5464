"""How the broker is, told by itself, read by anybody: from the topic to the sentences."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from headwater.broker import health_topic
from headwater.browse import health
from headwater.browse.health import BrokerHealth, HealthReader
from headwater.client.log import Log
from tests import fork_server
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, serving
from tests.compat.waiting import until

CALM = {"event.loop.turn.warn.ms": 0}
"""A busy machine makes long turns, and these are told as well."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_topic, "EVERY_S", 0.02)
    monkeypatch.setattr(health_topic, "SILENT_S", 0.1)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def look(reader: HealthReader) -> BrokerHealth:
    found: list[BrokerHealth | None] = []

    def told() -> bool:
        found.append(reader.look())
        return found[-1] is not None and "broker" in found[-1].subjects

    until(told, "the broker to tell something")
    assert found[-1] is not None
    return found[-1]


def status(bootstrap: str, *words: str) -> subprocess.CompletedProcess[str]:
    return fork_server.headwater("status", "--bootstrap", bootstrap, *words)


def fail(broker: Serving, task: str) -> None:
    broker.call(lambda: broker.broker.supervisor.failed(task, OSError("no"), "orders-0"))


def test_a_task_that_fails_is_shown_to_anybody_and_when_it_works_again_too(data: Path) -> None:
    with serving(data, CALM) as broker, Log(broker.bootstrap) as log:
        reader = HealthReader(log)
        assert look(reader).troubles == []
        shown = status(broker.bootstrap)
        assert (shown.returncode, shown.stdout.splitlines()[-1]) == (0, "nothing troubles it")
        fail(broker, "retention")
        until(lambda: bool(look(reader).troubles), "the failure to be told")
        (trouble,) = look(reader).troubles
        assert trouble.startswith("retention fails (once, last at ")
        assert "orders-0: OSError: no; it is tried again" in trouble
        shown = status(broker.bootstrap)
        assert shown.returncode == 1
        assert f"trouble: {trouble}" in shown.stdout
        broker.call(lambda: broker.broker.health.succeeded("retention"))
        until(lambda: not look(reader).troubles, "all to be well")
        (note,) = look(reader).notes
        assert note.startswith("retention has failed once since the start")
        told = json.loads(status(broker.bootstrap, "--json").stdout)
        assert told["broker"]["subjects"]["task/retention"]["failures"] == 1


def test_disk_damage_and_folders_that_were_set_aside_are_told_in_plain_words(data: Path) -> None:
    with serving(data) as broker, Log(broker.bootstrap) as log:
        health = broker.broker.health

        def tell() -> None:
            health.disk_space(100 * 1024**2, 2 * 1024**3, refusing=True)
            health.damaged("orders-0", "offsets 5 to 9 cannot be read")
            health.set_aside("old-0.stray", "no topic is known to have it")

        broker.call(tell)
        reader = HealthReader(log)
        until(lambda: len(look(reader).troubles) == 3, "all of it")
        disk, damage, aside = look(reader).troubles
        assert disk == (
            "the disk has 100 MiB free, and 2.0 GiB are to stay free: "
            "new records are refused until there is room"
        )
        assert damage == "orders-0 is damaged: offsets 5 to 9 cannot be read"
        assert aside == "old-0.stray was set aside at start: no topic is known to have it"


def test_what_an_earlier_start_told_is_taken_back(data: Path) -> None:
    with serving(data) as broker, Log(broker.bootstrap) as log:
        broker.call(lambda: broker.broker.health.damaged("orders-0", "it is gone"))
        fail(broker, "cleaner")
        reader = HealthReader(log)
        until(lambda: len(look(reader).troubles) == 2, "both")
    with serving(data) as broker, Log(broker.bootstrap) as log:
        reader = HealthReader(log)
        until(lambda: look(reader).troubles == [], "the new start")


def test_it_is_written_when_it_changes_and_not_otherwise(data: Path) -> None:
    with serving(data, CALM) as broker, Log(broker.bootstrap) as log:
        look(HealthReader(log))
        turns: list[int] = []
        own = broker.broker.health_topic
        tell = own.tell

        async def counted() -> None:
            await tell()
            turns.append(broker.log(health_topic.NAME).next_offset)

        own.tell = counted  # type: ignore[method-assign]
        until(lambda: len(turns) > 20, "some turns")
        assert turns[-1] == turns[5]
        fail(broker, "cleaner")
        until(lambda: turns[-1] == turns[5] + 1, "one record")


def test_a_new_start_takes_back_at_once_what_an_earlier_one_has_told(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(data) as broker, Log(broker.bootstrap) as log:
        look(HealthReader(log))
    monkeypatch.setattr(health_topic, "EVERY_S", 3600.0)
    with serving(data) as broker, Log(broker.bootstrap) as log:
        started = broker.broker.health.started_ms
        reader = HealthReader(log)
        until(lambda: look(reader).subjects["broker"]["started_ms"] == started, "this start")


def test_another_limit_of_free_space_is_told_at_once(data: Path) -> None:
    with serving(data) as broker, Log(broker.bootstrap) as log:
        reader = HealthReader(log)
        until(lambda: "disk" in look(reader).subjects, "the first look")
        broker.call(lambda: broker.broker.settings.set_dynamic("", {"log.min.free.bytes": "7"}))
        until(lambda: look(reader).subjects["disk"]["limit_bytes"] == 7, "the new limit")


def test_a_disk_that_refuses_its_health_harms_nobody(data: Path) -> None:
    disk = HandDisk()
    with serving(data, files=disk) as broker, Log(broker.bootstrap) as log:
        reader = HealthReader(log)
        look(reader)
        with disk.failing("write", name=f"{health_topic.NAME}-0/*"):
            fail(broker, "cleaner")
            broker.create("orders")
        fail(broker, "retention")
        until(lambda: len(look(reader).troubles) == 2, "it to be told in the end")
        assert broker.broker.health.task("health").failures == 0


def test_a_topic_that_is_deleted_and_made_again_is_read_again(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "WHOLE_S", 0.5)
    with serving(data) as broker, Log(broker.bootstrap) as log:
        reader = HealthReader(log)
        look(reader)
        broker.run(broker.broker.topics.delete(health_topic.NAME))
        fail(broker, "cleaner")
        until(lambda: bool((h := reader.look()) and h.troubles), "the new topic")
