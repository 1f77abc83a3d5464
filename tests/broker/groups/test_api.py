"""The handlers of the group APIs, through the real wire format and in every version."""

from __future__ import annotations

import asyncio
import inspect
import struct
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from headwater.broker.registry import Context, load_apis
from headwater.wire import messages, writer

from .desk import Desk

COMMIT, FETCH, FIND, JOIN, HEARTBEAT, LEAVE, SYNC, DESCRIBE, LIST = range(8, 17)
DELETE, OFFSET_DELETE, CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE = 42, 47, 68, 69
T, U = uuid.UUID(int=1), uuid.UUID(int=2)
APIS = load_apis()
VERSIONS = [
    (key, version)
    for key in (*range(8, 17), DELETE, OFFSET_DELETE, CONSUMER_HEARTBEAT, CONSUMER_DESCRIBE)
    for version in range(APIS[key].versions[0], APIS[key].versions[1] + 1)
]


class NoBudget:
    """There is room for everything."""

    def take(self, size: int, *, known: bool = False) -> None:
        """Nobody counts."""

    def for_member(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(give_back=lambda: None)

    for_offsets = for_member


class Client:
    """Asks the handlers as a connection would, with real bytes both ways."""

    def __init__(self, desk: Desk) -> None:
        topics = [
            SimpleNamespace(name="t", id=T, partitions=2),
            SimpleNamespace(name="u", id=U, partitions=1),
        ]
        self.desk = desk
        self.broker = SimpleNamespace(
            groups=desk.groups,
            catalogue=SimpleNamespace(
                topics={topic.name: topic for topic in topics},
                by_id={topic.id: topic for topic in topics},
            ),
            topics=SimpleNamespace(is_offline=lambda name, key: False),
            executor=None,
            shares=SimpleNamespace(has=lambda group_id: False, list=list),
            state=NoBudget(),
            supervisor=SimpleNamespace(monotonic=lambda: 0.0),
            settings=desk.settings,
            node_id=1,
            host="here",
            port=9092,
        )

    async def __call__(self, key: int, version: int, /, **body: Any) -> Any:
        request = self._through_the_wire(key, version, body)
        context = Context(version, "client", "127.0.0.1")
        answer: Any = APIS[key].handle(self.broker, request, context)  # type: ignore[arg-type]
        if inspect.isawaitable(answer):
            waiting = asyncio.ensure_future(answer)
            for _ in range(5):
                await asyncio.sleep(0)
            self.desk.pass_ms(0)
            answer = await waiting
        (frame,) = self._encode(key, version, answer)
        schema: Any = load_response_schema(key, version)
        start = 9 if schema.__flexible__ else 8
        entity, size = entity_reader(schema)(memoryview(frame), start)
        assert start + size == len(memoryview(frame))
        return entity

    def _encode(self, key: int, version: int, answer: Any) -> list[Any]:
        writer.STRICT = True  # a key that no version of the message has is an error
        try:
            return messages.encode(key, version, 1, answer)
        finally:
            writer.STRICT = False

    def _through_the_wire(self, key: int, version: int, body: dict[str, Any]) -> Any:
        schema: Any = load_request_schema(key, version)
        chunks: list[Any] = [struct.pack(">hhih", key, version, 1, -1)]
        if schema.__flexible__:
            chunks.append(b"\0")
        writer.entity_writer(schema)(chunks.append, body)
        frame = b"".join(chunks)
        return messages.decode(frame, messages.read_header(frame))

    async def join(self, version: int = 9, group: str = "g", **fields: Any) -> Any:
        body = {
            "group_id": group,
            "session_timeout": 10_000,
            "rebalance_timeout": 60_000,
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\1\0\1t"}],
        }
        return await self(JOIN, version, **(body | fields))

    async def stable(self, version: int = 9, group: str = "g") -> Any:
        joined = await self.join(version, group)
        if joined.error_code == ErrorCode.member_id_required:
            joined = await self.join(version, group, member_id=joined.member_id)
        assert joined.error_code == ErrorCode.none
        synced = await self.sync(joined, min(version, 5), group)
        assert synced.assignment == b"all"
        return joined

    async def sync(self, joined: Any, version: int = 5, group: str = "g", **fields: Any) -> Any:
        body = {
            "group_id": group,
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [{"member_id": joined.member_id, "assignment": b"all"}],
        }
        return await self(SYNC, version, **(body | fields))

    async def commit(self, version: int, topics: dict[str, list[int]], **who: Any) -> Any:
        ids = {"t": T, "u": U}
        body = {
            "group_id": "g",
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": [
                {
                    "name": name,
                    "topic_id": ids.get(name, uuid.UUID(int=99)),
                    "partitions": [
                        {
                            "partition_index": index,
                            "committed_offset": 10 + index,
                            "committed_leader_epoch": 3,
                            "committed_metadata": "note",
                        }
                        for index in indexes
                    ],
                }
                for name, indexes in topics.items()
            ],
        }
        return await self(COMMIT, version, **(body | who))


@pytest.fixture
async def ask(desk: Desk) -> Client:
    return Client(desk)


BODIES: dict[int, dict[str, Any]] = {
    COMMIT: {"group_id": "g", "member_id": "", "topics": []},
    FETCH: {"group_id": "g", "topics": [], "groups": [{"group_id": "g", "topics": None}]},
    FIND: {"key": "g", "coordinator_keys": ["g"]},
    JOIN: {"group_id": "g", "session_timeout": 1, "member_id": "", "protocol_type": "x"},
    HEARTBEAT: {"group_id": "g", "generation_id": 1, "member_id": "m"},
    LEAVE: {"group_id": "g", "member_id": "m", "members": [{"member_id": "m"}]},
    SYNC: {"group_id": "g", "generation_id": 1, "member_id": "m"},
    DESCRIBE: {"groups": ["g"]},
    LIST: {},
    DELETE: {"groups_names": ["g"]},
    OFFSET_DELETE: {"group_id": "g", "topics": []},
    CONSUMER_HEARTBEAT: {"group_id": "g", "member_id": "m", "member_epoch": 3},
    CONSUMER_DESCRIBE: {"group_ids": ["g"]},
}


@pytest.mark.parametrize(("key", "version"), VERSIONS)
async def test_every_version_is_answered_before_and_after_the_coordinator_runs(
    ask: Client, key: int, version: int
) -> None:
    await ask(key, version, **BODIES[key])
    ask.desk.groups.stopping()
    await ask(key, version, **BODIES[key])


@pytest.mark.parametrize("version", range(10))
async def test_a_member_lives_in_every_version(ask: Client, version: int) -> None:
    me = await ask.stable(version)
    beat = {"generation_id": me.generation_id, "member_id": me.member_id}
    alive = await ask(HEARTBEAT, min(version, 4), group_id="g", **beat)
    assert alive.error_code == ErrorCode.none
    left = await ask(
        LEAVE,
        min(version, 5),
        group_id="g",
        member_id=me.member_id,
        members=[{"member_id": me.member_id, "group_instance_id": None}],
    )
    assert left.error_code == ErrorCode.none
    assert all(member.error_code == ErrorCode.none for member in getattr(left, "members", ()))
    assert ask.desk.groups.groups["g"].state_name == "Empty"


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
async def test_a_refused_join_has_no_protocol(ask: Client, version: int, name: str | None) -> None:
    refused = await ask.join(version, member_id="stranger")
    assert refused.error_code == ErrorCode.unknown_member_id
    assert refused.protocol_name == name


async def test_a_join_of_version_0_waits_as_long_as_its_session(ask: Client) -> None:
    await ask.stable(0)
    (member,) = ask.desk.groups.groups["g"].members.values()
    assert member.rebalance_timeout_ms == 10_000


async def test_a_sync_of_version_5_must_name_its_protocol(ask: Client) -> None:
    me = await ask.stable()
    refused = await ask.sync(me, protocol_name=None)
    assert refused.error_code == ErrorCode.inconsistent_group_protocol


@pytest.mark.parametrize("version", range(6))
async def test_a_stranger_cannot_leave(ask: Client, version: int) -> None:
    await ask.stable()
    left = await ask(LEAVE, version, group_id="g", member_id="x", members=[{"member_id": "x"}])
    error = left.error_code if version < 3 else left.members[0].error_code
    assert error == ErrorCode.unknown_member_id


# ---- offsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 11))
async def test_what_is_committed_is_fetched_and_unknown_partitions_are_refused(
    ask: Client, version: int
) -> None:
    answer = await ask.commit(version, {"t": [0, 1, 2], "nope": [0]})
    errors = [p.error_code for topic in answer.topics for p in topic.partitions]
    unknown = ErrorCode.unknown_topic_or_partition
    absent = unknown if version < 10 else ErrorCode.unknown_topic_id
    assert errors == [ErrorCode.none, ErrorCode.none, unknown, absent]
    fetched = await ask(
        FETCH, 7, group_id="g", topics=[{"name": "t", "partition_indexes": [0, 1, 2]}]
    )
    (topic,) = fetched.topics
    assert [p.committed_offset for p in topic.partitions] == [10, 11, -1]
    assert topic.partitions[0].metadata == "note"
    assert topic.partitions[0].committed_leader_epoch == (3 if version >= 6 else -1)


@pytest.mark.parametrize("version", range(1, 11))
async def test_offsets_are_fetched_in_every_version(ask: Client, version: int) -> None:
    await ask.commit(9, {"t": [0]})
    wanted = [{"name": "t", "topic_id": T, "partition_indexes": [0, 1]}]
    answer = await ask(
        FETCH,
        version,
        group_id="g",
        topics=wanted,
        groups=[{"group_id": "g", "topics": wanted}, {"group_id": "none", "topics": wanted}],
    )
    groups = answer.groups if version >= 8 else [answer]
    offsets = [[p.committed_offset for p in group.topics[0].partitions] for group in groups]
    assert offsets == [[10, -1], [-1, -1]][: len(groups)]


@pytest.mark.parametrize("version", range(2, 11))
async def test_all_offsets_of_a_group_are_fetched(ask: Client, version: int) -> None:
    await ask.commit(9, {"t": [0, 1], "u": [0]})
    everything = {"group_id": "g", "topics": None}
    answer = await ask(FETCH, version, **everything, groups=[everything])
    (group,) = answer.groups if version >= 8 else [answer]
    assert [len(topic.partitions) for topic in group.topics] == [2, 1]
    if version >= 10:
        assert [topic.topic_id for topic in group.topics] == [T, U]


async def test_a_topic_id_that_nobody_knows_has_no_offsets(ask: Client) -> None:
    wanted = [{"topic_id": uuid.UUID(int=9), "partition_indexes": [0]}]
    answer = await ask(FETCH, 10, groups=[{"group_id": "g", "topics": wanted}])
    assert answer.groups[0].topics[0].partitions[0].error_code == ErrorCode.unknown_topic_id


async def test_a_fetch_while_the_coordinator_stops_says_so_in_its_versions_own_place(
    ask: Client,
) -> None:
    ask.desk.groups.stopping()
    unavailable = ErrorCode.coordinator_not_available
    wanted = [{"name": "t", "partition_indexes": [0]}]
    oldest = await ask(FETCH, 1, group_id="g", topics=wanted)
    assert oldest.topics[0].partitions[0].error_code == unavailable
    older = await ask(FETCH, 2, group_id="g", topics=wanted)
    assert (older.error_code, older.topics) == (unavailable, ())
    newer = await ask(FETCH, 8, groups=[{"group_id": "g", "topics": wanted}])
    assert newer.groups[0].error_code == unavailable


@pytest.mark.parametrize(
    ("version", "error"), [(8, ErrorCode.illegal_generation), (9, ErrorCode.group_id_not_found)]
)
async def test_a_member_of_no_group_cannot_commit(
    ask: Client, version: int, error: ErrorCode
) -> None:
    answer = await ask.commit(version, {"t": [0]}, member_id="m", generation_id_or_member_epoch=1)
    assert answer.topics[0].partitions[0].error_code == error


async def test_a_commit_of_version_4_may_bring_its_own_retention(ask: Client) -> None:
    await ask.commit(4, {"t": [0]}, retention_time=5_000)
    value = ask.desk.groups.offsets.fetch("g")[1].get("t", 0)
    assert value.expire_timestamp == value.commit_timestamp + 5_000


async def test_offsets_are_deleted_partition_by_partition(ask: Client) -> None:
    me = await ask.stable()
    who = {"member_id": me.member_id, "generation_id_or_member_epoch": me.generation_id}
    await ask.commit(9, {"t": [0], "u": [0]}, **who)
    wanted = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "u", "nope")]
    answer = await ask(OFFSET_DELETE, 0, group_id="g", topics=wanted)
    assert [topic.partitions[0].error_code for topic in answer.topics] == [
        ErrorCode.group_subscribed_to_topic,
        ErrorCode.none,
        ErrorCode.unknown_topic_or_partition,
    ]
    nameless = await ask(OFFSET_DELETE, 0, group_id="", topics=wanted)
    assert nameless.error_code == ErrorCode.invalid_group_id


# ---- looking -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(7))
async def test_this_node_coordinates_every_group(ask: Client, version: int) -> None:
    answer = await ask(FIND, version, key="g", coordinator_keys=["g", "h"])
    found = answer.coordinators if version >= 4 else [answer]
    assert [(each.node_id, each.host, each.port) for each in found] == [(1, "here", 9092)] * len(
        found
    )
    assert len(found) == (2 if version >= 4 else 1)


@pytest.mark.parametrize(
    ("version", "key_type", "key", "error"),
    [
        (3, 1, "txn", ErrorCode.none),
        (4, 1, "txn", ErrorCode.none),
        (3, 7, "g", ErrorCode.invalid_request),
        (5, 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0", ErrorCode.invalid_request),
        (6, 2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0", ErrorCode.none),
        (6, 2, "g:bad:0", ErrorCode.invalid_request),
        (6, 2, "g", ErrorCode.invalid_request),
    ],
)
async def test_what_has_a_coordinator(
    ask: Client, version: int, key_type: int, key: str, error: ErrorCode
) -> None:
    answer = await ask(FIND, version, key=key, key_type=key_type, coordinator_keys=[key])
    found = answer.coordinators[0] if version >= 4 else answer
    assert found.error_code == error
    assert found.node_id == (1 if error == ErrorCode.none else -1)


@pytest.mark.parametrize("version", range(7))
async def test_a_group_that_does_not_exist_is_dead(ask: Client, version: int) -> None:
    (group,) = (await ask(DESCRIBE, version, groups=["none"])).groups
    assert group.group_state == "Dead"
    if version >= 6:
        assert group.error_code == ErrorCode.group_id_not_found
        assert group.error_message == "Group none not found."
    else:
        assert group.error_code == ErrorCode.none


async def test_a_stable_group_shows_metadata_and_assignments(ask: Client) -> None:
    me = await ask.stable()
    answer = await ask(DESCRIBE, 6, groups=["g"], include_authorized_operations=True)
    (group,) = answer.groups
    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = group.members
    assert (member.member_id, member.client_id) == (me.member_id, "client")
    assert (member.client_host, member.member_assignment) == ("/127.0.0.1", b"all")
    assert member.member_metadata
    assert group.authorized_operations == 3400


async def test_a_rebalancing_group_shows_neither_metadata_nor_assignments(ask: Client) -> None:
    joined = await ask.join(3)
    (group,) = (await ask(DESCRIBE, 6, groups=["g"])).groups
    assert (group.group_state, group.protocol_data) == ("CompletingRebalance", "")
    assert group.members[0].member_id == joined.member_id
    assert group.members[0].member_metadata == b""
    assert group.authorized_operations == -(2**31)


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ([], [], ["g", "simple"]),
        (["stable"], [], ["g"]),
        (["EMPTY"], ["Classic"], ["simple"]),
        (["Dead"], [], []),
        ([], ["consumer"], []),
    ],
)
async def test_groups_are_listed_by_state_and_type(
    ask: Client, states: list[str], types: list[str], found: list[str]
) -> None:
    await ask.stable()
    await ask.commit(9, {"t": [0]}, group_id="simple")
    answer = await ask(LIST, 5, states_filter=states, types_filter=types)
    assert sorted(group.group_id for group in answer.groups) == found
    assert all(group.group_type == "classic" for group in answer.groups)


async def test_groups_are_deleted_one_by_one(ask: Client) -> None:
    await ask.stable()
    await ask.commit(9, {"t": [0]}, group_id="simple")
    answer = await ask(DELETE, 2, groups_names=["g", "simple", "none", "none"])
    assert {each.group_id: each.error_code for each in answer.results} == {
        "g": ErrorCode.non_empty_group,
        "simple": ErrorCode.none,
        "none": ErrorCode.group_id_not_found,
    }
    assert len(answer.results) == 3
