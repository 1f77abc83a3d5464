"""What a client that is connected, and may do nothing, can make the broker spend."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.broker import bounds, registry, slices
from headwater.broker import topics as topics_module
from headwater.broker.security import scram
from headwater.broker.security.acls import Acl, AclTable, Operation, decide
from headwater.broker.shares.partition_owner import PartitionOwner
from headwater.testing import broker as running_broker
from tests.broker.disks import HandDisk
from tests.broker.serving import Serving, serving
from tests.compat.asking import new_producer_id, produce
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire, connected

NAME = "x" * 32_000
PARTITIONS = range(1000)
GROWTH = {"name": "large", "count": 9, "assignments": None}


@pytest.fixture
def hand() -> HandDisk:
    return HandDisk()


@pytest.fixture
def broker(data: Path, hand: HandDisk) -> Iterator[Serving]:
    with serving(data, files=hand) as running:
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        yield connection


@pytest.mark.parametrize(
    ("api", "version", "request_"),
    [
        ("elect_leaders", 2, {"topic_partitions": [{"topic": NAME, "partitions": PARTITIONS}]}),
        ("describe_producers", 0, {"topics": [{"name": NAME, "partition_indexes": PARTITIONS}]}),
        (
            "alter_partition_reassignments",
            0,
            {
                "topics": [
                    {"name": NAME, "partitions": [{"partition_index": n} for n in PARTITIONS]}
                ]
            },
        ),
    ],
)
def test_a_name_is_not_said_again_for_each_partition(
    wire: Wire, api: str, version: int, request_: dict[str, Any]
) -> None:
    wire.send(api, version, **request_)
    assert len(wire.receive_bytes()) < 1024 * 1024


def test_the_work_of_a_decision_does_not_grow_with_the_name_that_a_client_makes_up() -> None:
    class Counting(dict[Any, Any]):
        looks = 0

        def get(self, *arguments: Any) -> Any:
            self.looks += 1
            return super().get(*arguments)

    table = AclTable()
    table.add(Acl(2, "orders", 4, "User:ann", "*", 3, 3))
    table._by_pattern = counting = Counting(table._by_pattern)
    assert decide(table.about(2, NAME, "User:bob"), "User:bob", "h", Operation.READ) is None
    assert counting.looks < 1000


def test_a_share_consumer_that_held_nothing_is_cheap_to_lose(
    broker: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Work at a disconnect: not sessions times share-partitions."""
    broker.create("t", 100)
    looked: list[str] = []
    monkeypatch.setattr(PartitionOwner, "release", lambda owner, member: looked.append(member))
    with broker.wire() as wire:
        parts = [{"partition_index": n, "start_offset": 0} for n in range(100)]
        wire.ask(
            "alter_share_group_offsets",
            0,
            group_id="g",
            topics=[{"topic_name": "t", "partitions": parts}],
        )
    with broker.wire() as wire:
        for _ in range(50):
            member = str(uuid.uuid4())
            wire.ask("share_fetch", 1, group_id="g", member_id=member, share_session_epoch=0)
    until(lambda: not len(broker.broker.shares.sessions), "the sessions to end")
    assert len(looked) <= 200


def test_a_request_that_changes_nothing_leaves_no_share_group_behind(
    broker: Serving, wire: Wire
) -> None:
    name = "n" * (bounds.NAME_CHARS_MAX + 1)
    answer = wire.ask("alter_share_group_offsets", 0, group_id=name, topics=[])
    assert answer.error_code is not ErrorCode.none
    wire.ask("alter_share_group_offsets", 0, group_id="g", topics=[])
    assert not broker.broker.shares.groups


def test_what_a_client_makes_up_stays_on_one_line_of_the_log(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"authorizer.class.name": "acl", "super.users": "User:root"}
    with caplog.at_level(logging.INFO), serving(data, settings) as running, running.wire() as wire:
        wire.ask("heartbeat", 4, group_id="g\n2030-01-01 INFO all is well")
    assert not [line for line in caplog.messages if "\n" in line and "all is well" in line]


def test_a_password_of_a_client_that_has_gone_is_not_kept_to_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def slow(*_: object) -> bool:
        go_on.wait(30)
        return False

    monkeypatch.setattr(scram, "knows", slow)
    settings = {"sasl.enabled.mechanisms": "PLAIN", "listeners": "SASL_PLAINTEXT://127.0.0.1:0"}
    with running_broker(tmp_path, settings, listen=None) as server:
        try:
            for _ in range(40):
                with connected(server.bootstrap) as wire:
                    wire.ask("sasl_handshake", 1, mechanism="PLAIN")
                    wire.send("sasl_authenticate", 2, auth_bytes=b"\0nobody\0" + b"y" * 60_000)
                    before = server.memory.used["requests"]
                    until(
                        lambda before=before: (
                            server.memory.used["requests"] > before
                            or server.memory.used["requests"] > 50_000
                        ),
                        "the token to arrive",
                    )
            until(lambda: not server.connections, "all of them to be gone")
            assert server.memory.used["requests"] < 10 * 60_000
        finally:
            go_on.set()


def test_producer_ids_that_one_client_makes_up_shut_nobody_else_out(
    broker: Serving, wire: Wire
) -> None:
    broker.broker.store.census.most = lambda: 50
    broker.create("mine")
    broker.create("theirs")
    for made_up in range(10**6, 10**6 + 60):
        produce(wire, "mine", batch([(None, b"v")], producer=(made_up, 0, 0)))
    with broker.wire() as other:
        producer_id, epoch = new_producer_id(other)
        stored = produce(other, "theirs", batch([(None, b"v")], producer=(producer_id, epoch, 0)))
    assert stored.error_code is ErrorCode.none, stored


def test_a_large_topic_keeps_nobody_from_making_a_small_one(
    broker: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folders are made while others change the catalogue."""
    go_on, begun = threading.Event(), threading.Event()
    topics = broker.broker.topics
    open_ = topics._open

    def slow(topic: Any, first: int) -> None:
        if topic.name == "large":
            begun.set()
            go_on.wait(30)
        open_(topic, first)

    monkeypatch.setattr(topics, "_open", slow)
    with broker.wire() as one, broker.wire() as two:
        asked = {"num_partitions": 1, "replication_factor": 1}
        one.send("create_topics", 5, topics=[{"name": "large", **asked}], timeout=30_000)
        assert begun.wait(30)
        small = two.ask("create_topics", 5, topics=[{"name": "small", **asked}], timeout=30_000)
        two.send("create_topics", 5, topics=[{"name": "large", **asked}], timeout=30_000)
        go_on.set()
        made, again = one.receive()[1], two.receive()[1]
    assert [each.topics[0].error_code for each in (small, again, made)] == [
        ErrorCode.none,
        ErrorCode.topic_already_exists,
        ErrorCode.none,
    ]


@pytest.mark.parametrize(
    ("change", "operation", "partitions"),
    [
        (("delete_topics", 5, {"topic_names": ["large"]}), "rename", 0),
        (("create_partitions", 3, {"topics": [GROWTH]}), "create", 9),
    ],
    ids=["delete", "grow"],
)
def test_a_large_topic_that_grows_or_goes_keeps_nobody_from_changing_another(
    broker: Serving,
    hand: HandDisk,
    change: tuple[str, int, dict[str, Any]],
    operation: str,
    partitions: int,
) -> None:
    """Its folders are made and removed while others change the catalogue; who wants its name waits."""
    api, version, asked = change
    broker.create("large", 3)
    with broker.wire() as one, broker.wire() as two, broker.wire() as three:
        with hand.held(operation, "*/large-*") as held:
            one.send(api, version, timeout=30_000, lenient=True, **asked)
            held.until_reached()
            broker.create("small")
            assert produce(two, "small", batch()).error_code is ErrorCode.none
            again = {"name": "large", "num_partitions": 1, "replication_factor": 1}
            three.send("create_topics", 5, topics=[again], timeout=30_000)
        one.receive()
        code = three.receive()[1].topics[0].error_code
    assert code is (ErrorCode.topic_already_exists if partitions else ErrorCode.none)
    assert broker.broker.catalogue.topics["large"].partitions == (partitions or 1)


def test_topics_that_are_made_leave_threads_to_others(
    broker: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many large ones at once: between some of its folders and the next, others have their turn."""
    monkeypatch.setattr(topics_module, "FOLDERS_AT_ONCE", 2)
    made = broker.broker.topics._run
    most: list[int] = []

    async def counted(function: Any, topic: Any, numbers: range) -> None:
        most.append(len(numbers))
        await made(function, topic, numbers)

    monkeypatch.setattr(broker.broker.topics, "_run", counted)
    broker.create("large", 7)
    assert most == [2, 2, 2, 1]


def test_a_look_at_topics_makes_so_many_and_no_more(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred kilobytes of names made fifteen thousand topics, in minutes; who asks again gets more."""
    monkeypatch.setattr(registry, "TOPICS_MADE_MAX", 5)
    monkeypatch.setattr(slices, "SLICE_ELEMENTS", 3)
    topics = [{"name": f"new{number}"} for number in range(8)]
    with serving(data, {"auto.create.topics.enable": True}) as broker, broker.wire() as wire:

        def asked() -> list[ErrorCode]:
            answer = wire.ask("metadata", 9, topics=topics, allow_auto_topic_creation=True)
            return [each.error_code for each in answer.topics]

        unknown = ErrorCode.unknown_topic_or_partition
        assert asked() == [ErrorCode.none] * 5 + [unknown] * 3
        assert asked() == [ErrorCode.none] * 8


def test_a_request_makes_so_many_partitions_and_no_more(wire: Wire) -> None:
    asked = [{"name": f"t{n}", "num_partitions": 10_000, "replication_factor": 1} for n in range(3)]
    answer = wire.ask("create_topics", 5, topics=asked, timeout=30_000, validate_only=True)
    codes = [each.error_code for each in answer.topics]
    assert codes == [ErrorCode.none, ErrorCode.policy_violation, ErrorCode.policy_violation]
