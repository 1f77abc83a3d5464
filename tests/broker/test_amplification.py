"""A small request makes no large answer, no long turn and no lasting weight of itself."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headwater.broker import bounds, fetch_sessions, once
from headwater.broker.api import k03_metadata, k32_describe_configs
from headwater.broker.registry import Context
from headwater.broker.settings import topic_definitions
from headwater.wire import guard
from headwater.wire.writer import uvarint
from tests.broker.serving import Serving, serving
from tests.compat.asking import fetch_request, find_coordinator, new_producer_id, produce
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ConnectionClosed, ErrorCode, Wire

MEGABYTE = 1024**2
LIMIT = 16 * MEGABYTE
GROUP = 32


@pytest.fixture
def broker(data: Path) -> Iterator[Serving]:
    with serving(data, {"queued.max.request.bytes": LIMIT}) as running:
        running.create("t", 50)
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        yield connection


def test_what_is_asked_for_a_thousand_times_is_described_once(broker: Serving, wire: Wire) -> None:
    find_coordinator(wire, "g")
    new_producer_id(wire)
    answers: list[Any] = [
        wire.ask("metadata", 12, topics=[{"name": "t"}] * 1000).topics,
        wire.ask(
            "describe_configs", 4, resources=[{"resource_type": 2, "resource_name": "t"}] * 1000
        ).results,
        wire.ask("describe_groups", 5, groups=["g"] * 1000).groups,
        wire.ask("consumer_group_describe", 1, group_ids=["g"] * 1000).groups,
        wire.ask("share_group_describe", 1, group_ids=["g"] * 1000).groups,
        wire.ask("describe_transactions", 0, transactional_ids=["x"] * 1000).transaction_states,
        wire.ask(
            "offset_fetch",
            9,
            groups=[{"group_id": "g", "member_epoch": -1, "topics": None}] * 1000,
        ).groups,
    ]
    assert [len(each) for each in answers] == [1] * len(answers)
    places = {"name": "t", "partition_indexes": [0] * 100}
    (topic,) = wire.ask("describe_producers", 0, topics=[places] * 100).topics
    assert len(topic.partitions) == 1
    groups = [{"group_id": "g", "member_epoch": -1, "topics": [places] * 100}]
    (topic,) = wire.ask("offset_fetch", 9, groups=groups).groups[0].topics
    assert len(topic.partitions) == 1


def test_more_elements_than_one_turn_has_time_for_are_refused(wire: Wire) -> None:
    request = fetch_request("t", partitions=range(guard.ELEMENTS_MAX + 1))
    assert wire.ask("fetch", 12, **request).error_code is ErrorCode.invalid_request
    with pytest.raises(ConnectionClosed):  # its answer has no place for it
        wire.ask("fetch", 4, lenient=True, **request)


def test_a_consumer_of_ten_thousand_topics_is_answered(wire: Wire) -> None:
    """Topics and partitions are elements, and so is the group that they are asked for."""
    topics = [{"name": f"topic-{n}", "partition_indexes": [0]} for n in range(10_000)]
    group = {"group_id": "g", "member_epoch": -1, "topics": topics}
    (found,) = wire.ask("offset_fetch", 9, groups=[group]).groups
    assert len(found.topics) == len(topics)
    names = [topic["name"] for topic in topics]
    owned = [{"topic_id": uuid.uuid4(), "partitions": [0]} for _ in names]
    member = {"group_id": "g", "member_id": "m", "member_epoch": 1, "rebalance_timeout": 5000}
    answer = wire.ask(
        "consumer_group_heartbeat",
        1,
        **member,
        subscribed_topic_names=names,
        topic_partitions=owned,
    )
    assert answer.error_code is ErrorCode.group_id_not_found


def test_a_thousand_topics_may_be_made_with_thirty_configs_each(wire: Wire) -> None:
    configs = [{"name": each.name, "value": None} for each in topic_definitions()[:30]]
    asked = [
        {"name": f"n{n}", "num_partitions": 1, "replication_factor": 1, "configs": configs}
        for n in range(1000)
    ]
    rows = wire.ask("create_topics", 7, topics=asked, timeout=9000, validate_only=True).topics
    assert {row.error_code for row in rows} == {ErrorCode.invalid_config}, "there is no value"


def test_too_many_topics_at_once_are_refused_in_a_sentence(broker: Serving, wire: Wire) -> None:
    names = range(bounds.TOPICS_MADE_MAX + 1)
    asked = [{"name": f"n{n}", "num_partitions": 1, "replication_factor": 1} for n in names]
    rows = wire.ask("create_topics", 7, topics=asked, timeout=9000, validate_only=True).topics
    assert {row.error_code for row in rows} == {ErrorCode.policy_violation}
    assert "several" in rows[0].error_message
    rows = wire.ask("create_topics", 7, topics=asked[:50], timeout=9000, validate_only=True).topics
    assert {row.error_code for row in rows} == {ErrorCode.none}


class Counted:
    """A connection that only adds up what is read for it."""

    def __init__(self) -> None:
        self.bytes = 0

    def reads(self, size: int) -> None:
        self.bytes += size


def described(broker: Serving, names: list[str], context: Context) -> list[dict[str, Any]]:
    resources = [
        SimpleNamespace(resource_type=GROUP, resource_name=name, configuration_keys=None)
        for name in names
    ]
    request = SimpleNamespace(
        resources=resources, include_synonyms=True, include_documentation=True
    )
    found: list[dict[str, Any]] = broker.run(
        k32_describe_configs.handle(broker.broker, request, context)
    )["results"]
    return found


def test_groups_without_configs_of_their_own_share_what_is_said_of_them(broker: Serving) -> None:
    counted = Counted()
    rows = described(broker, [f"g{n}" for n in range(100)], Context(4, "c", "h", counted))
    assert len({id(row["configs"]) for row in rows}) == 1
    written = 100 * len(rows[0]["configs"]) * once.ROW_BYTES
    assert written <= counted.bytes <= 1.2 * written


def test_more_groups_than_an_answer_may_tell_of_are_refused_in_a_sentence(
    broker: Serving, wire: Wire
) -> None:
    (one,) = described(broker, ["g"], Context(4, "c", "h"))
    last = bounds.DEFAULTS_TOLD_MAX // len(one["configs"]) + 1
    names = [{"resource_type": GROUP, "resource_name": f"g{n}"} for n in range(last + 1)]
    rows = wire.ask("describe_configs", 4, resources=names, include_synonyms=True).results
    assert {row.error_code for row in rows[:last]} == {ErrorCode.none}
    assert rows[last].error_code is ErrorCode.policy_violation
    assert "several" in rows[last].error_message
    assert broker.call(lambda: broker.broker.memory.used["answers"]) == 0


def test_decoded_requests_count_as_what_they_take(broker: Serving, wire: Wire) -> None:
    """Two bytes on the wire become an object."""
    count = 10_000
    body = (
        struct.pack(">hhih", 3, 9, 7, -1) + b"\0" + uvarint(count + 1) + b"\1\0" * count + bytes(4)
    )
    wire.send("fetch", 12, **fetch_request("t", max_wait=60_000, min_bytes=MEGABYTE))
    for _ in range(5):
        wire.send_bytes(body)
    until(
        lambda: broker.call(lambda: broker.broker.memory.used["requests"]) > 5 * count * 48,
        "the requests to be counted",
    )


def test_requests_that_wait_for_ever_keep_nobody_out(broker: Serving, wire: Wire) -> None:
    """A Fetch may say that it waits for weeks, and hold what it and those behind it have sent."""
    loiterers = [Wire(broker.bootstrap) for _ in range(20)]
    for each in loiterers:
        zeros = [0] * 5_500
        weeks = fetch_request("t", partitions=zeros, max_wait=2**31 - 1, min_bytes=2**31 - 1)
        each.send("fetch", 12, **weeks)
    memory, connections = broker.broker.memory, broker.broker.connections
    until(  # or the first of them were dropped for the others, before anybody looked
        lambda: broker.call(
            lambda: memory.held > LIMIT * 3 // 4 or len(connections) <= len(loiterers)
        ),
        "the memory to be used up",
    )
    for _ in range(3):
        assert produce(wire, "t", batch([(None, bytes(900_000))])).error_code is ErrorCode.none
    for each in loiterers:
        each.close()
    until(lambda: not broker.call(lambda: broker.broker.memory.held), "nothing to be held")


def test_fetch_sessions_remember_no_more_than_their_bound(
    broker: Serving, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "SESSIONS_BYTES_MAX", MEGABYTE)
    first = fetch_request("t", partitions=range(1000), max_wait=0, session_id=0, session_epoch=0)
    found = [wire.ask("fetch", 12, **first).session_id for _ in range(10)]
    assert all(found[:3]), "these have room"
    assert not any(found[4:]), "these go on without a session"
    more = fetch_request("t", partitions=range(1000, 5000), max_wait=0, session_epoch=1)
    grown = wire.ask("fetch", 12, **{**more, "session_id": found[0]})
    assert grown.error_code is ErrorCode.fetch_session_id_not_found
    assert wire.ask("fetch", 12, **first).session_id, "what it had is free again"


def test_a_name_that_is_long_counts_in_a_fetch_session(
    broker: Serving, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "SESSIONS_BYTES_MAX", MEGABYTE)
    topics = [{"topic": "x" * 30_000 + str(n), "partitions": [{"partition": 0}]} for n in range(50)]
    request = {**fetch_request("t", max_wait=0, session_id=0, session_epoch=0), "topics": topics}
    assert wire.ask("fetch", 12, **request).session_id == 0


def test_a_member_with_huge_metadata_is_refused(wire: Wire) -> None:
    find_coordinator(wire, "g")
    huge = bytes(bounds.METADATA_BYTES_MAX + 1)
    answer = wire.ask(
        "join_group",
        5,
        group_id="g",
        session_timeout=30_000,
        rebalance_timeout=30_000,
        protocol_type="consumer",
        protocols=[{"name": "range", "metadata": huge}],
    )
    assert answer.error_code is ErrorCode.invalid_request


def all_offsets(wire: Wire, group: str) -> None:
    wire.send("offset_fetch", 8, groups=[{"group_id": group, "topics": None}], require_stable=False)


def test_answers_that_nobody_takes_are_made_one_at_a_time(data: Path) -> None:
    """All offsets of a group, asked for in thirty bytes, by clients that read nothing."""
    with serving(data, {"queued.max.request.bytes": LIMIT}) as broker, broker.wire() as wire:
        broker.create("many", 2000)
        for first in range(0, 2000, 200):
            rows = [
                {"partition_index": n, "committed_offset": 1, "committed_metadata": "m" * 4000}
                for n in range(first, first + 200)
            ]
            asked = {"group_id": "g", "generation_id_or_member_epoch": -1}
            topics = [{"name": "many", "partitions": rows}]
            found = wire.ask("offset_commit", 8, **asked, topics=topics).topics[0].partitions
            assert {row.error_code for row in found} == {ErrorCode.none}
        memory = broker.broker.memory
        idle = [Wire(broker.bootstrap) for _ in range(12)]
        for each in idle:
            all_offsets(each, "g")
        until(
            lambda: broker.call(lambda: memory.is_waited_for or memory.held > 2 * LIMIT),
            "somebody to wait for room",
        )
        assert broker.call(lambda: memory.held) <= LIMIT
        all_offsets(wire, "another")
        assert wire.receive()[1].groups[0].topics == (), "what is little waits for nobody"
        for each in idle:
            each.close()
        all_offsets(wire, "g")
        assert len(wire.receive()[1].groups[0].topics[0].partitions) == 2000


@pytest.mark.parametrize("named", [False, True])
def test_metadata_of_many_partitions_is_a_list(broker: Serving, named: bool) -> None:
    broker.create("many", k03_metadata.MANY_PARTITIONS + 1)
    topics = [{"name": "many"}] if named else None
    with broker.wire() as other, broker.wire() as wire:
        memory = broker.broker.memory
        somebody: Any = type("Somebody", (), {"client_host": "192.0.2.1"})()
        broker.call(lambda: memory.may_list(somebody))
        other.send("metadata", 12, topics=topics)
        until(lambda: broker.call(lambda: memory.is_waited_for), "it to wait for its turn")
        assert wire.ask("metadata", 12, topics=[{"name": "t"}]).topics[0].name == "t"
        broker.call(lambda: memory.listed(somebody))
        assert "many" in {row.name for row in other.receive()[1].topics}
