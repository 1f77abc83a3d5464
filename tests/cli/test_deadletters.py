"""`headwater deadletters` against a running broker: what was rejected is shown and sent back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)

from headwater.project.broker_process import BrokerProcess


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "log") as broker:
        broker.start()
        yield broker.bootstrap
        broker.stop()


@pytest.fixture
def deadletters(headwater, bootstrap):
    return lambda *words: headwater("deadletters", *words, env={"HEADWATER_BOOTSTRAP": bootstrap})


def settle(
    bootstrap: str, topic: str, group: str, count: int, judge: Callable[[Any], int]
) -> list[bytes]:
    """Let a worker take so many records, as `judge` says; their values."""
    taken: list[bytes] = []
    deadline = time.monotonic() + 100
    worker = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "log_level": 0,
        }
    )
    worker.subscribe([topic])
    while len(taken) < count:
        assert time.monotonic() < deadline
        for message in worker.poll(0.2):
            taken.append(message.value())
            worker.acknowledge(message, judge(message))
        worker.commit_sync(10)
    worker.close()
    return taken


def rejected(bootstrap: str, topic: str, group: str, *values: str) -> None:
    """Dead letters with these values."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    earliest = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[earliest])
    admin.incremental_alter_configs([resource])[resource].result(60)
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value, key="k", headers={"trace": "9"})
    assert producer.flush(60) == 0
    settle(bootstrap, topic, group, len(values), lambda message: AcknowledgeType.REJECT)


def test_dead_letters_are_listed_replayed_once_and_listed_no_more(deadletters, bootstrap):
    rejected(bootstrap, "orders", "billing", "one", "two", "three")
    topics = {row["topic"]: row for row in deadletters("list", "--json").json()}
    assert topics["dlq.billing"] == {"topic": "dlq.billing", "letters": 3, "waiting": 3}

    first, *_ = deadletters("list", "dlq.billing", "--json").json()
    assert first == {
        "offset": "0:0",
        "source": "orders-0:0",
        "group": "billing",
        "deliveries": 1,
        "reason": "Offset rejected by client.",
        "key": "k",
        "value": "one",
    }
    assert deadletters("list", "dlq.billing").out.splitlines()[0].split()[:2] == [
        "OFFSET",
        "SOURCE",
    ]

    done = deadletters("replay", "dlq.billing", "--limit", "2")
    assert (done.code, done.out) == (0, "Replayed 2 dead letters from dlq.billing\n"), done.err
    assert deadletters("replay", "dlq.billing").out == "Replayed 1 dead letter from dlq.billing\n"
    assert deadletters("replay", "dlq.billing").out == "Replayed 0 dead letters from dlq.billing\n"
    assert deadletters("list", "dlq.billing").out == "No dead letters wait in dlq.billing\n"
    assert len(deadletters("list", "dlq.billing", "--all", "--json").json()) == 3

    again = settle(bootstrap, "orders", "billing", 3, lambda message: AcknowledgeType.ACCEPT)
    assert again == [b"one", b"two", b"three"]


def test_dead_letters_may_go_elsewhere_with_their_own_headers(deadletters, bootstrap):
    rejected(bootstrap, "parcels", "couriers", "lost")
    assert deadletters("replay", "dlq.couriers", "--to", "returns").code == 0
    seen: list[Any] = []

    def look(message: Any) -> int:
        seen.append((message.key(), message.value(), message.headers()))
        return AcknowledgeType.ACCEPT

    admin = AdminClient({"bootstrap.servers": bootstrap})
    resource = ConfigResource(
        ConfigResource.Type.GROUP,
        "clerks",
        incremental_configs=[
            ConfigEntry(
                "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
            )
        ],
    )
    admin.incremental_alter_configs([resource])[resource].result(60)
    settle(bootstrap, "returns", "clerks", 1, look)
    assert seen == [(b"k", b"lost", [("trace", b"9")])]


def test_a_topic_that_is_not_there_is_one_sentence(deadletters):
    ran = deadletters("replay", "dlq.nobody")
    assert ran.code == 1
    assert "there is no topic 'dlq.nobody'" in ran.err
