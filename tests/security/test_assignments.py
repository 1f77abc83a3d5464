"""What a group assigns shows a member no topic that it may not describe, whenever that came to be."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.groups.subscription import read_assignment
from headwater.broker.security.acls import Acl
from tests.broker.serving import Serving, serving
from tests.compat.wire import ErrorCode, Wire

EVERYBODY, ALLOW = ("User:*", "*"), 3
READ, DESCRIBE = 3, 8
TOPIC, GROUP = 2, 3
LITERAL, PREFIXED = 3, 4


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Serving]:
    settings = {"authorizer.class.name": "acl", "group.consumer.assignment.interval.ms": 0}
    with serving(tmp_path / "data", settings) as running:
        allow(running, Acl(GROUP, "g", LITERAL, *EVERYBODY, READ, ALLOW))
        for name in ("seen-a", "seen-b", "hidden"):
            running.run(running.broker.topics.create(name, 2, {}))
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        yield connection


def allow(broker: Serving, acl: Acl) -> None:
    assert broker.broker.authorizer is not None
    broker.run(broker.broker.authorizer.add(acl))


def forbid(broker: Serving, acl: Acl) -> None:
    assert broker.broker.authorizer is not None
    broker.run(broker.broker.authorizer.remove(acl))


def told(broker: Serving, answer: Any) -> set[str] | None:
    assert answer.error_code is ErrorCode.none, answer
    if answer.assignment is None:
        return None
    names = {topic.id: name for name, topic in broker.broker.catalogue.topics.items()}
    return {names[row.topic_id] for row in answer.assignment.topic_partitions}


def beat(wire: Wire, epoch: int, **said: Any) -> Any:
    member = {"group_id": "g", "member_id": "m", "member_epoch": epoch, "rebalance_timeout": 9000}
    return wire.ask("consumer_group_heartbeat", 1, **member, **said)


def full(wire: Wire, epoch: int, names: list[str]) -> Any:
    return beat(wire, epoch, subscribed_topic_names=names, topic_partitions=[])


def test_an_expression_gives_nothing_of_a_topic_that_came_later_and_is_hidden(
    broker: Serving, wire: Wire
) -> None:
    allow(broker, Acl(TOPIC, "seen-", PREFIXED, *EVERYBODY, DESCRIBE, ALLOW))
    joined = beat(wire, 0, subscribed_topic_regex="(seen|new).*", topic_partitions=[])
    assert told(broker, joined) == {"seen-a", "seen-b"}
    broker.run(broker.broker.topics.create("new-secret", 1, {}))
    broker.run(broker.broker.topics.create("seen-c", 1, {}))
    after = beat(wire, joined.member_epoch)
    assert told(broker, after) == {"seen-a", "seen-b", "seen-c"}


def test_a_right_that_is_gone_ends_what_is_told(broker: Serving, wire: Wire) -> None:
    rights = [Acl(TOPIC, f"seen-{n}", LITERAL, *EVERYBODY, DESCRIBE, ALLOW) for n in "ab"]
    for each in rights:
        allow(broker, each)
    joined = beat(wire, 0, subscribed_topic_regex="seen.*", topic_partitions=[])
    assert told(broker, joined) == {"seen-a", "seen-b"}
    forbid(broker, rights[1])
    broker.run(broker.broker.topics.grow("seen-b", 3))
    after = beat(wire, joined.member_epoch)
    assert told(broker, after) == {"seen-a"}


def test_a_classic_member_of_such_a_group_learns_nothing_of_what_is_hidden(
    broker: Serving, wire: Wire
) -> None:
    """Its subscription is in bytes that no rule reads; how many partitions there are was in the answer."""
    allow(broker, Acl(TOPIC, "seen-", PREFIXED, *EVERYBODY, DESCRIBE, ALLOW))
    assert told(broker, full(wire, 0, ["seen-a"])) == {"seen-a"}
    topics = b"".join(struct.pack(">h", len(t)) + t for t in (b"seen-b", b"hidden"))
    metadata = struct.pack(">hi", 0, 2) + topics + struct.pack(">i", -1)
    asked = {
        "group_id": "g",
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": metadata}],
    }
    joined = wire.ask("join_group", 3, **asked)
    assert joined.error_code is ErrorCode.none, joined
    synced = wire.ask(
        "sync_group",
        3,
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
    )
    assert synced.error_code is ErrorCode.none, synced
    assert read_assignment(synced.assignment) == {"seen-b": frozenset((0, 1))}
