"""Clients push their metrics: a real one by itself, a raw one with every mistake."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from headwater.record import codecs
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, serving
from tests.broker.telemetry.test_measurements import MESSAGE
from tests.compat.asking import fetch
from tests.compat.batches import read_batches
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

TOPIC = "__client_metrics"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path / "data") as broker:
        yield broker


def subscribe(wire: Wire, **configs: str) -> None:
    changes = [
        {"name": name.replace("_", "."), "config_operation": 0, "value": value}
        for name, value in configs.items()
    ]
    resource = {"resource_type": 16, "resource_name": "all", "configs": changes}
    answer = wire.ask("incremental_alter_configs", 1, resources=[resource])
    assert answer.responses[0].error_code is ErrorCode.none, answer


def pushed(served: Serving) -> list[Any]:
    if TOPIC not in served.call(lambda: set(served.broker.catalogue.topics)):
        return []
    with served.wire() as wire:
        found = read_batches(fetch(wire, TOPIC, 0).records or b"")
    return [json.loads(value) for each in found for _, value in each.pairs if value is not None]


def test_a_real_client_pushes_what_it_is_asked_for(served: Serving) -> None:
    with served.wire() as wire:
        subscribe(wire, metrics="*", interval_ms="200", match="client_id=pusher")
    served.create("t")
    sender = Producer({"bootstrap.servers": served.bootstrap, "client.id": "pusher"})
    sender.produce("t", b"x")
    sender.flush(60)
    until(lambda: sender.poll(0.05) or pushed(served), "metrics to arrive")
    one = pushed(served)[0]
    assert (one["client_id"], one["client_host"]) == ("pusher", "127.0.0.1")
    assert "rdkafka" in one["software"]
    assert any(name.startswith("org.apache.kafka.") for name in one["metrics"])


def test_clients_are_not_bothered_while_nobody_subscribes(served: Serving) -> None:
    with served.wire() as wire:
        assert not {71, 72} & wire.versions.keys()
        subscribe(wire, metrics="*")
    with served.wire() as wire:
        assert {71, 72} <= wire.versions.keys()


def test_every_mistake_of_a_client_has_its_answer(served: Serving) -> None:
    with served.wire() as wire:
        subscribe(wire, metrics="a.", interval_ms="100000")
        first = wire.ask("get_telemetry_subscriptions", 0, client_instance_id=None)
        assert first.requested_metrics == ("a.",)
        assert first.accepted_compression_types == (4, 3, 1, 2)
        assert first.push_interval.total_seconds() == 100
        mine = {"client_instance_id": first.client_instance_id}
        again = wire.ask("get_telemetry_subscriptions", 0, **mine)
        assert again.error_code is ErrorCode.throttling_quota_exceeded

        def push(metrics: bytes = MESSAGE, **changes: Any) -> ErrorCode:
            asked = {**mine, "subscription_id": first.subscription_id, **changes}
            return wire.ask("push_telemetry", 0, metrics=metrics, **asked).error_code

        def other() -> dict[str, uuid.UUID]:
            return {"client_instance_id": uuid.uuid4()}

        assert push(client_instance_id=None) is ErrorCode.invalid_request
        assert push(subscription_id=7) is ErrorCode.unknown_subscription_id
        assert push(compression_type=9) is ErrorCode.unsupported_compression_type
        assert push(b"x" * 1_100_000) is ErrorCode.telemetry_too_large
        assert push(b"\xff" * 20, **other()) is ErrorCode.invalid_record
        assert push(b"nonsense", compression_type=4, **other()) is ErrorCode.invalid_record
        assert push() is ErrorCode.none
        assert push() is ErrorCode.throttling_quota_exceeded
        for codec in (1, 2, 3, 4):
            packed = codecs.compress(codec, MESSAGE)
            assert push(packed, compression_type=codec, **other()) is ErrorCode.none
        assert push(terminating=True) is ErrorCode.none
        assert push() is ErrorCode.invalid_request
    until(lambda: len(pushed(served)) == 6, "six pushes in the topic")
    assert pushed(served)[0]["metrics"] == {"a.gauge": 1.5, "a.sum": -7.0, "h": 9.0}
    with served.wire() as wire:
        subscribe(wire, metrics="b.")
        later = wire.ask("get_telemetry_subscriptions", 0, **mine)
        assert later.subscription_id != first.subscription_id


def test_the_record_of_a_push_is_written_off_the_event_loop(
    served: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[str] = []
    dumps = json.dumps

    def watched(*arguments: Any, **options: Any) -> str:
        if isinstance(arguments[0], dict) and "metrics" in arguments[0]:
            threads.append(threading.current_thread().name)
        return dumps(*arguments, **options)

    with served.wire() as wire:
        subscribe(wire, metrics="a.")
        first = wire.ask("get_telemetry_subscriptions", 0, client_instance_id=None)
        monkeypatch.setattr(json, "dumps", watched)
        push = {"subscription_id": first.subscription_id, "metrics": MESSAGE}
        answer = wire.ask("push_telemetry", 0, client_instance_id=first.client_instance_id, **push)
    assert answer.error_code is ErrorCode.none
    assert [name.rpartition("_")[0] for name in threads] == ["headwater-check"]


def test_nothing_is_taken_while_there_is_no_room_on_the_disk(tmp_path: Path) -> None:
    disk = HandDisk()
    settings = {"log.min.free.bytes": 100 * 1024**2}
    with serving(tmp_path / "data", settings, files=disk) as broker, broker.wire() as wire:
        subscribe(wire, metrics="a.", interval_ms="100000")
        first = wire.ask("get_telemetry_subscriptions", 0, client_instance_id=None)
        disk.free_bytes = 1024
        until(lambda: broker.broker.disk_space.refusing, "the watch to see it")
        answer = wire.ask(
            "push_telemetry",
            0,
            client_instance_id=first.client_instance_id,
            subscription_id=first.subscription_id,
            metrics=MESSAGE,
        )
        assert answer.error_code is ErrorCode.kafka_storage_error
        assert TOPIC not in broker.call(lambda: set(broker.broker.catalogue.topics))


def test_nothing_is_taken_from_clients_that_nobody_asks(served: Serving) -> None:
    with served.wire() as wire:
        first = wire.ask("get_telemetry_subscriptions", 0, client_instance_id=None)
        mine = {"client_instance_id": first.client_instance_id}
        asked = {**mine, "subscription_id": first.subscription_id}
        answer = wire.ask("push_telemetry", 0, metrics=MESSAGE, **asked)
    assert answer.error_code is ErrorCode.unknown_subscription_id
    assert TOPIC not in served.call(lambda: set(served.broker.catalogue.topics))


def test_pushes_that_become_large_wait_for_each_other_and_for_the_disk(tmp_path: Path) -> None:
    disk = HandDisk()
    with serving(tmp_path / "data", files=disk) as served, served.wire() as wire:
        subscribe(wire, metrics="a.", interval_ms="100000")
        first = wire.ask("get_telemetry_subscriptions", 0, client_instance_id=None)
        push = {"subscription_id": first.subscription_id, "metrics": MESSAGE}
        wire.ask("push_telemetry", 0, client_instance_id=first.client_instance_id, **push)
        storing = served.broker.telemetry._storing
        with served.wire() as other, disk.held("sync", f"{TOPIC}-0/*") as held:
            for each in (wire, other):
                each.send("push_telemetry", 0, client_instance_id=uuid.uuid4(), **push)
            until(lambda: served.call(lambda: len(storing._waiters or ())), "one to wait")
            held.until_reached()
            assert (
                served.call(lambda: served.broker.topics.partitions[TOPIC, 0].log.next_offset) == 2
            )
            held.release()
            answers = [each.receive()[1].error_code for each in (wire, other)]
    assert answers == [ErrorCode.none] * 2
