"""Every change is written down by the broker, with who made it, and no request fails by that."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from headwater.broker.audit import changes, trail
from headwater.broker.audit.changes import Change
from headwater.broker.registry import Context, load_apis
from headwater.browse.audit import CHANGES, Entry, newest
from headwater.client import acls, topics, users
from headwater.client.log import Log
from tests.broker.serving import Serving, serving
from tests.compat.waiting import until

CHANGING = ("Create", "Delete", "Alter", "Incremental", "Update", "Unregister", "Expire", "Renew")
NO_CHANGE = {
    "AlterPartitionReassignments": "there is one broker: it never moves anything",
    "AlterReplicaLogDirs": "the same",
    "UnregisterBroker": "the same",
    "CreateDelegationToken": "refused: there are none",
    "RenewDelegationToken": "the same",
    "ExpireDelegationToken": "the same",
    "UpdateFeatures": "the level of a protocol, which the broker's own log names",
}


@pytest.fixture
def broker(data: Path) -> Iterator[Serving]:
    with serving(data, settings={"audit.enable": True}) as running:
        yield running


@pytest.fixture
def log(broker: Serving) -> Iterator[Log]:
    with Log(broker.bootstrap, {"client.id": "a test"}) as opened:
        yield opened


def written(log: Log, count: int) -> list[Entry]:
    """The newest, oldest first, once there are so many."""
    until(lambda: len(newest(log, 100)) >= count, f"{count} changes")
    return list(reversed(newest(log, 100)))


def test_every_api_that_changes_something_is_audited_or_says_why_not() -> None:
    found = {api.name: key for key, api in load_apis().items() if api.name.startswith(CHANGING)}
    assert {name for name, key in found.items() if key not in changes.TABLE} == set(NO_CHANGE)


def test_changes_are_written_with_who_made_them_and_what_became_of_them(log: Log) -> None:
    topics.create(log.admin, "orders", 2, {"retention.ms": "1000"})
    with pytest.raises(KafkaException):
        topics.create(log.admin, "orders", 2)
    topics.grow(log.admin, "orders", 3)
    entry = ConfigEntry("retention.ms", "2000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=[entry])
    log.admin.incremental_alter_configs([resource])[resource].result()
    users.put(log.admin, "ann", "wonderland", ["SCRAM-SHA-256"], 4096)
    log.admin.delete_topics(["orders"])["orders"].result()
    found = written(log, 6)
    assert [(e.what, e.kind, e.name, e.error) for e in found] == [
        ("create", "topic", "orders", None),
        ("create", "topic", "orders", "TOPIC_ALREADY_EXISTS"),
        ("add partitions", "topic", "orders", None),
        ("configure", "topic", "orders", None),
        ("set password", "user", "ann", None),
        ("delete", "topic", "orders", None),
    ]
    assert found[0].details == {"partitions": 2, "configs": {"retention.ms": "1000"}}
    assert found[3].details == {"configs": {"retention.ms": "2000"}}
    assert {(e.principal, e.client_id, e.host) for e in found} == {
        ("User:ANONYMOUS", "a test", "127.0.0.1")
    }
    assert "wonderland" not in json.dumps([e.as_json() for e in found])


def test_what_is_only_tried_is_no_change_and_refused_permissions_are(log: Log) -> None:
    log.admin.create_topics([NewTopic("tried", 1, 1)], validate_only=True)["tried"].result()
    wanted = [acls.Acl("User:ann", "allow", "read", "topic", "orders")]
    with pytest.raises(KafkaException):  # there is no authorizer
        acls.add(log.admin, wanted)
    (found,) = written(log, 1)
    assert (found.what, found.kind, found.name) == ("allow", "permission", "User:ann")
    assert found.error == "SECURITY_DISABLED" and found.details["on"] == "topic:orders"


def test_nobody_writes_it_but_the_broker(broker: Serving, log: Log) -> None:
    topics.create(log.admin, "orders", 1)
    written(log, 1)
    outcome: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    producer.produce(CHANGES, b"forged", on_delivery=lambda error, _: outcome.append(error))
    producer.flush(60)
    assert outcome[0] is not None and len(newest(log, 10)) == 1


def test_what_does_not_fit_is_counted_and_the_request_is_answered(
    broker: Serving, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "WAITING_MAX", 0)
    topics.create(log.admin, "orders", 1)
    assert broker.call(lambda: broker.broker.health.subjects()["audit"]) == {"lost": 1}


def test_what_cannot_be_described_is_counted_and_harms_nothing(broker: Serving) -> None:
    def broken() -> Iterator[Change]:
        raise KeyError("no such field")
        yield Change("", "", "")

    context = Context(0, "c", "h")
    broker.call(lambda: broker.broker.trail.tell("Api", broken(), context))
    assert broker.call(lambda: broker.broker.health.audit_lost) == 1


def test_many_changes_of_one_request_are_bounded() -> None:
    many = (Change("create", "topic", str(number)) for number in range(changes.CHANGES_MAX + 7))
    found = list(changes.limited(many))
    assert len(found) == changes.CHANGES_MAX + 1 and found[-1].name.startswith("7 more")


def test_secrets_in_settings_are_never_repeated() -> None:
    assert changes.shown("ssl.keystore.password", "pw") == "***"
    assert changes.shown("retention.ms", "1") == "1"
    assert changes.shown("ssl.keystore.password", None) is None
