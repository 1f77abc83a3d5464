"""What strangers say and the broker keeps is bounded: every string, every value, every record of state."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.broker import bounds
from headwater.wire.guard import STRING_BYTES_MAX
from tests.broker.serving import Serving, serving
from tests.compat.asking import find_coordinator
from tests.compat.transacting import Transactor
from tests.compat.wire import ConnectionClosed, ErrorCode, Wire

MEGABYTE = 1024**2
LISTED = "leader.replication.throttled.replicas"
TOO_LONG = "x" * (STRING_BYTES_MAX + 1)


@pytest.fixture
def broker(data: Path) -> Iterator[Serving]:
    with serving(data, {"group.initial.rebalance.delay.ms": 0}) as running:
        running.create("t", 1)
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        find_coordinator(connection, "g")
        yield connection


# ---- strings --------------------------------------------------------------------------------------


def test_a_string_is_no_longer_than_kafka_allows_where_the_answer_can_say_so(wire: Wire) -> None:
    answer = wire.ask("metadata", 13, topics=[{"name": TOO_LONG}])
    assert answer.error_code is ErrorCode.invalid_request
    answer = wire.ask("consumer_group_heartbeat", 1, **beat(rack_id=TOO_LONG))
    assert answer.error_code is ErrorCode.invalid_request
    assert wire.ask("share_group_heartbeat", 1, **share_beat(rack_id=TOO_LONG)).error_code is (
        ErrorCode.invalid_request
    )
    answer = wire.ask("init_producer_id", 4, transactional_id=TOO_LONG, producer_id=-1)
    assert answer.error_code is ErrorCode.invalid_request
    assert wire.ask("metadata", 13, topics=[{"name": "t"}]).topics[0].name == "t", "it goes on"


@pytest.mark.parametrize("value", [TOO_LONG, "x" * MEGABYTE])
def test_a_string_that_is_too_long_ends_the_connection_where_it_cannot(
    wire: Wire, value: str
) -> None:
    with pytest.raises(ConnectionClosed):
        create_with(wire, LISTED, value)


def test_the_longest_string_passes(wire: Wire) -> None:
    answer = wire.ask("metadata", 13, topics=[{"name": TOO_LONG[1:]}])
    assert answer.topics[0].error_code is ErrorCode.invalid_topic_exception


def create_with(wire: Wire, name: str, value: str) -> Any:
    asked = {
        "name": "big",
        "num_partitions": 1,
        "replication_factor": 1,
        "configs": [{"name": name, "value": value}],
    }
    return wire.ask("create_topics", 7, topics=[asked], timeout=9000).topics[0].error_code


# ---- configs --------------------------------------------------------------------------------------


def test_a_config_does_not_grow_beyond_its_bound_bit_by_bit(wire: Wire) -> None:
    codes = [append(wire, ",".join(f"{part}{n}:1" for n in range(4000))) for part in (1, 2)]
    assert codes == [ErrorCode.none, ErrorCode.invalid_config]
    (found,) = wire.ask(
        "describe_configs",
        4,
        resources=[{"resource_type": 2, "resource_name": "t", "configuration_keys": [LISTED]}],
    ).results
    assert 0 < len(found.configs[0].value) <= bounds.CONFIG_VALUE_BYTES_MAX


def append(wire: Wire, value: str) -> Any:
    change = {"name": LISTED, "config_operation": 2, "value": value}
    resource = {"resource_type": 2, "resource_name": "t", "configs": [change]}
    answer = wire.ask("incremental_alter_configs", 1, resources=[resource])
    return answer.responses[0].error_code


def test_credentials_are_as_long_as_a_hash_is_and_not_longer(wire: Wire) -> None:
    for field in ("salt", "salted_password"):
        change = {"name": "u", "mechanism": 1, "iterations": 4096, "salt": b"s" * 16}
        change |= {"salted_password": b"p" * 32, field: b"x" * (bounds.SECRET_BYTES_MAX + 1)}
        answer = wire.ask("alter_user_scram_credentials", 0, upsertions=[change])
        assert answer.results[0].error_code is ErrorCode.unacceptable_credential


# ---- groups ---------------------------------------------------------------------------------------


def beat(**changes: Any) -> dict[str, Any]:
    return {
        "group_id": "g",
        "member_id": str(uuid.uuid4()),
        "member_epoch": 0,
        "rebalance_timeout": 300_000,
        "subscribed_topic_names": ["t"],
        "topic_partitions": [],
        **changes,
    }


def share_beat(**changes: Any) -> dict[str, Any]:
    return {
        "group_id": "s",
        "member_id": str(uuid.uuid4()),
        "member_epoch": 0,
        "subscribed_topic_names": ["t"],
        **changes,
    }


TOO_MUCH = [f"{n:0>240}" for n in range(bounds.SUBSCRIPTION_BYTES_MAX // 240 + 1)]


@pytest.mark.parametrize("names", [["t", "x" * 250], TOO_MUCH], ids=["a name", "all names"])
def test_a_subscription_to_what_cannot_be_is_refused_and_harms_nobody(
    broker: Serving, wire: Wire, names: list[str]
) -> None:
    member = beat()
    assert wire.ask("consumer_group_heartbeat", 1, **member).error_code is ErrorCode.none
    for api, asked in (
        ("consumer_group_heartbeat", beat(subscribed_topic_names=names)),
        ("share_group_heartbeat", share_beat(subscribed_topic_names=names)),
    ):
        assert wire.ask(api, 1, **asked).error_code is ErrorCode.invalid_request
    assert len(broker.call(lambda: broker.broker.groups.groups["g"].members)) == 1
    assert "s" not in broker.call(lambda: broker.broker.shares.groups)
    assert wire.ask("consumer_group_heartbeat", 1, **member).error_code is ErrorCode.none


def joined(wire: Wire) -> Any:
    asked = {
        "group_id": "classic",
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\1\0\0\0\0\xff\xff\xff\xff"}],
    }
    first = wire.ask("join_group", 5, **asked)
    return wire.ask("join_group", 5, **asked, member_id=first.member_id)


def test_an_assignment_that_does_not_fit_a_record_is_not_kept(broker: Serving, wire: Wire) -> None:
    member = joined(wire)
    synced = wire.ask("sync_group", 3, **assignment(member, b"y" * 2 * MEGABYTE))
    assert synced.error_code is ErrorCode.unknown_server_error
    members = broker.call(lambda: broker.broker.groups.groups["classic"].members.values())
    assert sum(len(each.assignment) for each in members) == 0
    assert not any(each.log.next_offset for each in of_offsets(broker)), "nothing is written"
    member = wire.ask(
        "join_group",
        5,
        group_id="classic",
        session_timeout=30_000,
        rebalance_timeout=30_000,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"\0\1\0\0\0\0\xff\xff\xff\xff"}],
        member_id=member.member_id,
    )
    synced = wire.ask("sync_group", 3, **assignment(member, b"y" * 1000))
    assert (synced.error_code, len(synced.assignment)) == (ErrorCode.none, 1000)


def of_offsets(broker: Serving) -> list[Any]:
    partitions = broker.broker.topics.partitions.items()
    return [each for (name, _), each in partitions if name == "__consumer_offsets"]


def assignment(member: Any, data: bytes) -> dict[str, Any]:
    return {
        "group_id": "classic",
        "generation_id": member.generation_id,
        "member_id": member.member_id,
        "assignments": [{"member_id": member.member_id, "assignment": data}],
    }


def test_more_offsets_than_one_write_may_have_are_refused(broker: Serving, wire: Wire) -> None:
    broker.create("wide", 20)
    assert commit(wire, range(1)) == {ErrorCode.none}
    change = {"name": "max.message.bytes", "config_operation": 0, "value": "9000"}
    resource = {"resource_type": 2, "resource_name": "__consumer_offsets", "configs": [change]}
    answer = wire.ask("incremental_alter_configs", 1, resources=[resource])
    assert answer.responses[0].error_code is ErrorCode.none
    refused = ErrorCode.invalid_commit_offset_size
    assert commit(wire, range(20)) == {refused}
    assert commit(wire, range(10)) == {ErrorCode.none}
    transaction = Transactor(wire, "tx").init()
    assert commit(wire, range(20), transaction) == {refused}
    assert commit(wire, range(10), transaction) == {ErrorCode.none}
    assert transaction.ask_end(True).error_code is ErrorCode.none


def commit(wire: Wire, numbers: range, transaction: Transactor | None = None) -> set[ErrorCode]:
    """Commit one offset with much metadata for each of these partitions; the errors."""
    parts = [
        {"partition_index": n, "committed_offset": 1, "committed_metadata": "m" * 4096}
        for n in numbers
    ]
    topics = [{"name": "wide", "partitions": parts}]
    if transaction is None:
        member = {"group_id": "g2", "generation_id_or_member_epoch": -1}
        answer = wire.ask("offset_commit", 8, **member, topics=topics)
    else:
        answer = wire.ask(
            "txn_offset_commit",
            5,
            transactional_id=transaction.name,
            group_id="g2",
            producer_id=transaction.id,
            producer_epoch=transaction.epoch,
            generation_id=-1,
            topics=topics,
        )
    return {part.error_code for part in answer.topics[0].partitions}
