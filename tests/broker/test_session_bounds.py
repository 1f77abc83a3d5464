"""What a session remembers is bounded, and a request about all of it leaves turns to others."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema

from headwater.broker import fetch_sessions, slices
from headwater.broker.api import k01_fetch
from headwater.broker.registry import Context, Later
from headwater.broker.shares import sessions as share_sessions
from headwater.broker.turns import TURN_S
from tests.broker.serving import Serving, serving
from tests.broker.test_fetch_sessions import Reader, put
from tests.compat.asking import fetch_request
from tests.compat.waiting import until
from tests.compat.wire import API_KEYS, ErrorCode, Wire, build

MANY = 3_000
BOUND = 5_000


@pytest.fixture
def broker(data: Path) -> Iterator[Serving]:
    with serving(data) as running:
        running.create("t", 12)
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        yield connection


def fetch_of(topic: str, session: int, epoch: int, count: int = MANY) -> dict[str, Any]:
    more = {"session_id": session, "session_epoch": epoch}
    return fetch_request(topic, partitions=range(count), max_wait=0, min_bytes=0, **more)


def share_of(epoch: int, count: int = MANY) -> dict[str, Any]:
    parts = [{"partition_index": n} for n in range(count)]
    return {
        "group_id": "g",
        "member_id": "m",
        "share_session_epoch": epoch,
        "max_wait": 0,
        "max_bytes": 1,
        "max_records": 1,
        "batch_size": 1,
        "topics": [{"topic_id": uuid.uuid4(), "partitions": parts}] if count else [],
    }


def test_a_fetch_session_that_grows_too_large_is_forgotten_and_full_requests_go_on(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_sessions, "SESSION_PARTITIONS_MAX", BOUND)
    session = wire.ask("fetch", 12, **fetch_of("a", 0, 0)).session_id
    assert session
    answer = wire.ask("fetch", 12, **fetch_of("b", session, 1))
    assert answer.error_code is ErrorCode.fetch_session_id_not_found
    answer = wire.ask("fetch", 12, **fetch_of("b", 0, 0, 2 * MANY))
    assert (answer.error_code, answer.session_id) == (ErrorCode.none, 0)
    assert len(answer.responses[0].partitions) == 2 * MANY


def test_a_share_session_that_grows_too_large_ends(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_sessions, "SESSION_PARTITIONS_MAX", BOUND)
    assert wire.ask("share_fetch", 1, **share_of(0)).error_code is ErrorCode.none
    answer = wire.ask("share_fetch", 1, **share_of(1))
    assert answer.error_code is ErrorCode.share_session_limit_reached
    answer = wire.ask("share_fetch", 1, **share_of(2, 0))
    assert answer.error_code is ErrorCode.share_session_not_found
    assert wire.ask("share_fetch", 1, **share_of(0)).error_code is ErrorCode.none


def test_all_share_sessions_together_have_a_bound(
    wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_sessions, "PARTITIONS_MAX", BOUND)
    full = ErrorCode.share_session_limit_reached
    members = [{**share_of(0), "member_id": name} for name in "abc"]
    codes = [wire.ask("share_fetch", 1, **each).error_code for each in members]
    assert codes == [ErrorCode.none, full, full]
    assert wire.ask("share_fetch", 1, **{**share_of(-1, 0), "member_id": "a"}).error_code == 0
    assert wire.ask("share_fetch", 1, **members[1]).error_code is ErrorCode.none, "its room is free"


@pytest.mark.parametrize(
    ("api", "version", "request_of"),
    [("fetch", 12, fetch_of("nope", 0, 0)), ("share_fetch", 1, share_of(0))],
)
def test_others_are_answered_while_many_partitions_are_looked_at(
    broker: Serving,
    monkeypatch: pytest.MonkeyPatch,
    api: str,
    version: int,
    request_of: dict[str, Any],
) -> None:
    """By a clock on which so many looks are a turn."""
    looks, supervisor = itertools.count(), broker.broker.supervisor
    each_s = TURN_S / slices.SLICE_ELEMENTS
    monkeypatch.setattr(supervisor, "monotonic", lambda: next(looks) * each_s)

    async def turns_meanwhile() -> int:
        key, turns = API_KEYS[api], 0
        request = build(load_request_schema(key, version), request_of)
        answer = broker.broker.apis[key].handle(broker.broker, request, Context(version, "c", "h"))
        task = asyncio.ensure_future(_waited(answer))
        while not task.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert broker.run(turns_meanwhile()) >= MANY // slices.SLICE_ELEMENTS


async def _waited(answer: Any) -> Any:
    if isinstance(answer, Later):
        done = asyncio.get_running_loop().create_future()
        answer.listen(done.set_result, done.set_exception)
        return await done
    return await answer if asyncio.iscoroutine(answer) else answer


def test_a_reader_of_many_partitions_gets_everything_in_slices(
    broker: Serving, wire: Wire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(k01_fetch, "SLICE_ELEMENTS", 5)
    reader = Reader(wire, "t", range(12), max_wait=10_000)
    with broker.wire() as other:
        for number in range(12):
            put(other, "t", number, 2)
        while sum(reader.seen.values()) < 24:
            reader.poll()
        begun = reader.wire.send("fetch", 12, **reader_request(reader))
        put(other, "t", 7)
        correlation, answer = reader.wire.receive()
    assert correlation == begun
    assert [part.partition_index for each in answer.responses for part in each.partitions] == [7]


def reader_request(reader: Reader) -> dict[str, Any]:
    """What `Reader.ask` says when nothing is new but its positions."""
    wanted = [
        {"partition": n, "fetch_offset": at, "partition_max_bytes": 1_000_000}
        for n, at in reader.positions.items()
    ]
    return {
        "replica_id": -1,
        "session_id": reader.session,
        "session_epoch": reader.epoch,
        "topics": [{"topic": "t", "partitions": wanted}],
        **reader.limits,
    }


def test_a_reader_that_leaves_while_it_waits_for_many_partitions_is_forgotten(
    broker: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(k01_fetch, "SLICE_ELEMENTS", 5)
    with broker.wire() as wire:
        wire.send("fetch", 12, **fetch_request("t", partitions=range(12), max_wait=600_000))
        until_waiting(broker, 1)
    until_waiting(broker, 0)
    assert not broker.call(
        lambda: [p for p in broker.broker.topics.partitions.values() if p.watchers]
    )


def until_waiting(broker: Serving, count: int) -> None:
    until(
        lambda: broker.call(lambda: len(broker.broker.sessions.waiting)) == count,
        f"{count} fetches that wait",
    )
