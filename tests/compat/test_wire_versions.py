"""Which versions the server speaks, that it speaks all of them, and what it does with nonsense."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from .asking import Member, find_coordinator, new_producer_id, subscription
from .batches import batch
from .cluster import Cluster
from .wire import API_KEYS, ConnectionClosed, ErrorCode, Wire, connected, decode

# What today's clients choose (kcat, librdkafka, kafka-python, aiokafka, franz-go, kafkajs, Java).
CHOSEN_BY_CLIENTS = {
    "produce": (7, 13),
    "fetch": (11, 18),
    "list_offsets": (2, 11),
    "metadata": (0, 13),
    "offset_commit": (3, 10),
    "offset_fetch": (3, 10),
    "find_coordinator": (1, 6),
    "join_group": (5, 9),
    "heartbeat": (1, 4),
    "leave_group": (1, 5),
    "sync_group": (3, 5),
    "describe_groups": (0, 6),
    "list_groups": (0, 5),
    "api_versions": (0, 4),
    "create_topics": (3, 7),
    "delete_topics": (1, 6),
    "delete_records": (1, 2),
    "init_producer_id": (0, 5),
    "offset_for_leader_epoch": (4, 4),
    "describe_configs": (1, 4),
    "alter_configs": (1, 2),
    "incremental_alter_configs": (1, 1),
    "describe_log_dirs": (5, 5),
    "create_partitions": (1, 3),
    "delete_groups": (1, 2),
    "offset_delete": (0, 0),
    "describe_cluster": (2, 2),
    "describe_producers": (0, 0),
    "describe_topic_partitions": (0, 0),
}


def test_every_api_reaches_as_far_as_clients_ask(wire: Wire) -> None:
    short = {
        api: wire.versions.get(API_KEYS[api])
        for api, (low, high) in CHOSEN_BY_CLIENTS.items()
        if not covers(wire.versions.get(API_KEYS[api]), low, high)
    }
    assert short == {}


def covers(offered: tuple[int, int] | None, low: int, high: int) -> bool:
    return offered is not None and offered[0] <= low and offered[1] >= high


def test_every_version_of_api_versions_lists_the_same_apis(wire: Wire) -> None:
    for version in wire.common("api_versions"):
        name = {} if version < 3 else {"client_software_name": "a", "client_software_version": "1"}
        answer = wire.ask("api_versions", version, **name)
        assert answer.error_code is ErrorCode.none
        assert {each.api_key for each in answer.api_keys} == set(wire.versions)


def test_a_newer_api_versions_is_answered_in_version_0(wire: Wire) -> None:
    from kio.schema.api_versions.v0.response import ApiVersionsResponse

    header = struct.pack(">hhih4sb", API_KEYS["api_versions"], 99, 7, 4, b"wire", 0)
    wire.send_bytes(header + b"\x02a\x021\x00")
    answer = decode(ApiVersionsResponse, wire.receive_bytes())
    assert answer.error_code is ErrorCode.unsupported_version
    offered = {each.api_key: each.max_version for each in answer.api_keys}
    assert offered[API_KEYS["api_versions"]] >= 4
    assert wire.ask("api_versions", 0).error_code is ErrorCode.none


def test_a_client_name_with_spaces_is_an_invalid_request(wire: Wire) -> None:
    answer = wire.ask("api_versions", 3, client_software_name="a b", client_software_version="1")
    assert answer.error_code is ErrorCode.invalid_request


def nonsense() -> Iterator[tuple[str, bytes]]:
    yield "an unknown api", frame(struct.pack(">hhih", 999, 0, 1, -1))
    yield "a version too new", frame(struct.pack(">hhih", API_KEYS["metadata"], 99, 1, -1))
    yield "a negative version", frame(struct.pack(">hhih", API_KEYS["metadata"], -1, 1, -1))
    yield "a body cut short", frame(struct.pack(">hhihi", API_KEYS["metadata"], 1, 1, -1, 5))
    yield "a header cut short", frame(b"\x00\x03\x00")
    yield "an empty request", frame(b"")
    yield "a negative length", struct.pack(">i", -5)
    yield "a length beyond the limit", struct.pack(">i", 2**31 - 1)
    yield "an http request", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def frame(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


@pytest.mark.parametrize("data", [pytest.param(data, id=name) for name, data in nonsense()])
def test_nonsense_closes_that_connection_and_nothing_else(
    cluster: Cluster, wire: Wire, data: bytes
) -> None:
    with connected(cluster.bootstrap) as other:
        other.send_unframed(data)
        with pytest.raises(ConnectionClosed):
            other.receive_bytes()
    assert wire.ask("metadata", 9, topics=[]).brokers


def test_pipelined_requests_are_answered_in_order(wire: Wire, cluster: Cluster, topic: str) -> None:
    cluster.create_topic(topic)
    slow = {"replica_id": -1, "max_wait": 300, "min_bytes": 1, "max_bytes": 1000}
    wanted = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
    slow["topics"] = [{"topic": topic, "partitions": wanted}]
    sent = [wire.send("fetch", 12, **slow)]
    sent += [wire.send("metadata", 9, topics=[{"name": topic}]) for _ in range(5)]
    sent += [wire.send("api_versions", 0)]
    answers = [wire.receive() for _ in sent]
    assert [correlation for correlation, _ in answers] == sent
    assert [type(each).__name__ for _, each in answers[:2]] == ["FetchResponse", "MetadataResponse"]


def test_two_hundred_connections_at_once(cluster: Cluster) -> None:
    with ExitStack() as stack:
        wires = []
        for _ in range(200):
            wires.append(stack.enter_context(cluster.wire()))
            assert wires[-1].ask("metadata", 9, topics=[]).brokers
        assert all(each.ask("metadata", 9, topics=[]).brokers for each in wires)


def test_a_request_may_arrive_byte_by_byte(cluster: Cluster) -> None:
    request = frame(struct.pack(">hhihi", API_KEYS["metadata"], 1, 5, -1, 0))
    with connected(cluster.bootstrap) as wire:
        for position in range(len(request)):
            wire.send_unframed(request[position : position + 1])
        assert wire.receive_bytes()[:4] == struct.pack(">i", 5)


def test_bytes_after_a_request_are_ignored(wire: Wire) -> None:
    """librdkafka asks for all topics with three bytes too many."""
    wire.send_bytes(struct.pack(">hhihi", API_KEYS["metadata"], 1, 5, -1, 0) + b"\x00\x01\x02")
    assert wire.receive_bytes()[:4] == struct.pack(">i", 5)


def every_error(entity: Any) -> Iterator[ErrorCode]:
    """All error codes in an answer, however deep."""
    if isinstance(entity, ErrorCode):
        yield entity
    elif isinstance(entity, tuple):
        for each in entity:
            yield from every_error(each)
    elif is_dataclass(entity):
        for each in fields(entity):
            yield from every_error(getattr(entity, each.name))


# One request per API, as the union of all its versions' fields; what a version lacks is left out.
def requests(topic: str, topic_id: Any, group: str, new: Callable[[], str]) -> dict[str, Any]:
    both = {"name": topic, "topic": topic, "topic_id": topic_id}
    configs = [{"name": "retention.ms", "value": "1000", "config_operation": 0}]
    commit = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1}
    wanted = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
    resource = {"resource_type": 2, "resource_name": topic}
    groups = [
        {"group_id": group, "member_epoch": -1, "topics": [{**both, "partition_indexes": [0]}]}
    ]
    return {
        "produce": {
            "acks": -1,
            "timeout": 60_000,
            "topic_data": [{**both, "partition_data": [{"index": 0, "records": batch()}]}],
        },
        "fetch": {
            "replica_id": -1,
            "max_wait": 10,
            "max_bytes": 1000,
            "topics": [{**both, "partitions": [wanted]}],
        },
        "list_offsets": {
            "replica_id": -1,
            "timeout": 60_000,
            "topics": [{**both, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
        },
        "metadata": {"topics": [{"name": topic}]},
        "offset_commit": {
            "group_id": group,
            "generation_id_or_member_epoch": -1,
            "retention_time": -1,
            "topics": [{**both, "partitions": [commit]}],
        },
        "offset_fetch": {
            "group_id": group,
            "topics": [{"name": topic, "partition_indexes": [0]}],
            "groups": groups,
        },
        "find_coordinator": {"key": group, "key_type": 0, "coordinator_keys": [group]},
        "describe_groups": {"groups": [group]},
        "list_groups": {},
        "create_topics": {
            "topics": [{"name": new(), "num_partitions": 1, "replication_factor": 1}],
            "timeout": 9000,
        },
        "delete_topics": {
            "topic_names": [topic],
            "topics": [{"name": topic}],
            "timeout": 9000,
        },
        "delete_records": {
            "topics": [{"name": topic, "partitions": [{"partition_index": 0, "offset": 0}]}],
            "timeout": 60_000,
        },
        "init_producer_id": {"transaction_timeout": 1000, "producer_id": -1, "producer_epoch": -1},
        "offset_for_leader_epoch": {
            "replica_id": -1,
            "topics": [
                {
                    "topic": topic,
                    "partitions": [{"partition": 0, "leader_epoch": 0, "current_leader_epoch": -1}],
                }
            ],
        },
        "describe_configs": {"resources": [resource], "include_synonyms": True},
        "alter_configs": {"resources": [{**resource, "configs": configs}]},
        "incremental_alter_configs": {"resources": [{**resource, "configs": configs}]},
        "describe_log_dirs": {"topics": [{"topic": topic, "partitions": [0]}]},
        "create_partitions": {
            "topics": [{"name": topic, "count": 2, "assignments": None}],
            "timeout": 9000,
        },
        "describe_cluster": {"endpoint_type": 1},
        "describe_producers": {"topics": [{"name": topic, "partition_indexes": [0]}]},
        "describe_topic_partitions": {"topics": [{"name": topic}], "response_partition_limit": 10},
    }


@pytest.mark.parametrize("api", sorted(requests("", None, "", lambda: "")))
def test_every_advertised_version_answers_what_it_was_asked(
    wire: Wire, cluster: Cluster, api: str, new_name: Callable[[], str]
) -> None:
    topic, group = cluster.create_topic(new_name()), new_name()
    find_coordinator(wire, group)
    new_producer_id(wire)
    assert Member(wire, group).commit(topic, 1) is ErrorCode.none
    for version in wire.common(api):
        if api in {"delete_topics", "create_partitions"}:
            topic = cluster.create_topic(new_name())
        values = requests(topic, cluster.topic_id(topic), group, new_name)[api]
        wire.send(api, version, lenient=True, **values)
        answer = wire.receive()[1]
        assert set(every_error(answer)) <= {ErrorCode.none}, f"{api} version {version}: {answer}"


def test_every_version_of_the_group_protocol_answers(
    wire: Wire, cluster: Cluster, new_name: Callable[[], str]
) -> None:
    find_coordinator(wire, "warm-up")
    for version in wire.common("join_group"):
        group = new_name()
        member = {"group_id": group, "member_id": "", "generation_id": -1, "protocol_name": "range"}
        member["protocol_type"] = "consumer"
        join = {"session_timeout": 6000, "rebalance_timeout": 6000}
        join["protocols"] = [{"name": "range", "metadata": subscription()}]
        answer = exchange(wire, "join_group", version, {**member, **join})
        if version >= 4:
            assert answer.error_code is ErrorCode.member_id_required
            member["member_id"] = answer.member_id
            answer = exchange(wire, "join_group", version, {**member, **join})
        assert answer.error_code is ErrorCode.none
        assert answer.leader == answer.member_id
        member |= {"member_id": answer.member_id, "generation_id": answer.generation_id}
        member["assignments"] = [{"member_id": answer.member_id, "assignment": b"plan"}]
        synced = exchange(wire, "sync_group", version, member)
        assert (synced.error_code, synced.assignment) == (ErrorCode.none, b"plan")
        assert exchange(wire, "heartbeat", version, member).error_code is ErrorCode.none
        member["members"] = [{"member_id": answer.member_id}]
        assert exchange(wire, "leave_group", version, member).error_code is ErrorCode.none
        member["groups_names"] = [group]
        deleted = exchange(wire, "delete_groups", version, member)
        assert deleted.results[0].error_code is ErrorCode.none


def exchange(wire: Wire, api: str, version: int, values: dict[str, Any]) -> Any:
    """Ask in this version, or in the nearest that the API has."""
    possible = wire.common(api)
    wire.send(api, min(possible, key=lambda each: abs(each - version)), lenient=True, **values)
    return wire.receive()[1]


def test_offset_delete_answers(wire: Wire, cluster: Cluster, topic: str, group: str) -> None:
    cluster.create_topic(topic)
    find_coordinator(wire, group)
    assert Member(wire, group).commit(topic, 5) is ErrorCode.none
    topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    answer = wire.ask("offset_delete", 0, group_id=group, topics=topics)
    assert set(every_error(answer)) == {ErrorCode.none}


def test_producer_ids_are_never_given_twice(wire: Wire) -> None:
    given = [new_producer_id(wire) for _ in range(5)]
    assert len({producer_id for producer_id, _ in given}) == 5
    assert {epoch for _, epoch in given} == {0}
