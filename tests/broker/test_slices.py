"""A request about thousands of things is answered like a small one, and holds nobody up."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kio.index import load_request_schema

from headwater.broker import slices
from headwater.broker.slices import PATHS, SLICE_ELEMENTS
from headwater.broker.turns import HALF_S, Few, Had, Turns, give_way
from headwater.wire import guard
from tests.broker.serving import Serving, serving
from tests.compat.asking import end_offset, produce
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import API_KEYS, ConnectionClosed, ErrorCode, Wire, build

MANY = 2_000
NAMES = [f"topic-{number}" for number in range(MANY)]
PLACES = [{"partition_index": n, "timestamp": -1, "current_leader_epoch": -1} for n in range(MANY)]
EPOCHS = [{"partition": n, "current_leader_epoch": -1, "leader_epoch": 0} for n in range(MANY)]
OFFSETS = [{"partition_index": n, "offset": 0} for n in range(MANY)]
REQUESTS: dict[str, tuple[int, dict[str, Any]]] = {
    "list_offsets": (7, {"replica_id": -1, "topics": [{"name": "t", "partitions": PLACES}]}),
    "metadata": (12, {"topics": [{"name": name} for name in ["t", *NAMES]]}),
    "offset_fetch": (
        9,
        {
            "groups": [
                {
                    "group_id": "g",
                    "member_epoch": -1,
                    "topics": [{"name": "t", "partition_indexes": list(range(MANY))}],
                },
                {
                    "group_id": "h",
                    "member_epoch": -1,
                    "topics": [{"name": name, "partition_indexes": [0, 1]} for name in NAMES],
                },
            ]
        },
    ),
    "find_coordinator": (4, {"key_type": 0, "coordinator_keys": NAMES}),
    "describe_groups": (5, {"groups": NAMES}),
    "delete_topics": (6, {"topics": [{"name": name} for name in NAMES], "timeout": 1000}),
    "delete_records": (2, {"topics": [{"name": "t", "partitions": OFFSETS}], "timeout": 1000}),
    "offset_for_leader_epoch": (4, {"topics": [{"topic": "t", "partitions": EPOCHS}]}),
    "describe_configs": (
        4,
        {"resources": [{"resource_type": 2, "resource_name": name} for name in NAMES]},
    ),
    "delete_groups": (2, {"groups_names": NAMES}),
    "elect_leaders": (
        2,
        {"topic_partitions": [{"topic": "t", "partitions": list(range(MANY))}], "timeout": 1000},
    ),
    "alter_partition_reassignments": (
        1,
        {"topics": [{"name": "t", "partitions": [{"partition_index": n} for n in range(MANY)]}]},
    ),
    "describe_quorum": (
        2,
        {
            "topics": [
                {"topic_name": "t", "partitions": [{"partition_index": n} for n in range(MANY)]}
            ]
        },
    ),
    "describe_share_group_offsets": (
        1,
        {
            "groups": [
                {"group_id": "s", "topics": [{"topic_name": "t", "partitions": [*range(MANY)]}]},
                {"group_id": "all", "topics": None},
            ]
        },
    ),
    "describe_producers": (0, {"topics": [{"name": "t", "partition_indexes": list(range(MANY))}]}),
    "describe_transactions": (0, {"transactional_ids": NAMES}),
    "consumer_group_describe": (1, {"group_ids": NAMES}),
    "share_group_describe": (1, {"group_ids": NAMES}),
    "streams_group_describe": (0, {"group_ids": NAMES}),
}


@pytest.fixture
def broker(data: Path) -> Iterator[Serving]:
    with serving(data) as running:
        running.create("t", 3)
        with running.wire() as wire:
            begin = [{"partition_index": 0, "start_offset": 0}]
            asked = [{"topic_name": "t", "partitions": begin}]
            answer = wire.ask("alter_share_group_offsets", 0, group_id="s", topics=asked)
            assert answer.error_code is ErrorCode.none, answer
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        yield connection


def test_every_sliced_api_is_asked_here() -> None:
    assert len(REQUESTS) == len(PATHS)


@pytest.mark.parametrize("api", REQUESTS)
def test_the_answer_is_the_same_in_one_piece_or_in_many(
    wire: Wire, api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, request = REQUESTS[api]
    in_many = wire.ask(api, version, **request)
    monkeypatch.setattr(slices, "SLICE_ELEMENTS", 10 * MANY)
    assert wire.ask(api, version, **request) == in_many


@pytest.mark.parametrize("api", REQUESTS)
def test_slices_are_small_and_leave_nothing_out(api: str) -> None:
    version, request = REQUESTS[api]
    key = API_KEYS[api]
    whole = build(load_request_schema(key, version), request)
    path = PATHS[key].request
    parts = list(slices.split(whole, path, SLICE_ELEMENTS))
    counts = [slices.count(part, path) for part in parts]
    assert max(counts) <= SLICE_ELEMENTS
    assert sum(counts) == slices.count(whole, path)


def test_others_are_answered_while_a_large_request_is(broker: Serving, wire: Wire) -> None:
    async def turns_meanwhile() -> int:
        turns, version = 0, 12
        schema = load_request_schema(3, version)
        request = build(schema, {"topics": [{"name": name} for name in NAMES]})
        context = type("C", (), {"api_version": version, "address": lambda self, b: ("h", 1)})()
        answer = asyncio.ensure_future(
            broker.broker.apis[3].handle(broker.broker, request, context)
        )
        while not answer.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert broker.run(turns_meanwhile()) >= MANY // SLICE_ELEMENTS


def test_answers_stay_in_order_behind_one_that_takes_long(wire: Wire) -> None:
    first = wire.send("metadata", 12, topics=[{"name": name} for name in NAMES])
    second = wire.send("metadata", 12, topics=[{"name": "t"}])
    found = [wire.receive() for _ in range(2)]
    assert [correlation for correlation, _ in found] == [first, second]
    assert [len(answer.topics) for _, answer in found] == [MANY, 1]


def test_a_client_that_leaves_before_its_large_answer_leaves_nothing_behind(
    broker: Serving, wire: Wire
) -> None:
    for _ in range(20):
        with broker.wire() as leaver:
            leaver.send("metadata", 12, topics=[{"name": name} for name in NAMES])
    assert produce(wire, "t", batch([(b"k", b"v")])).error_code is ErrorCode.none
    assert end_offset(wire, "t") == 1


TOO_MANY = guard.ELEMENTS_MAX + 1


def test_too_many_elements_are_an_error_where_the_answer_has_a_place_for_one(wire: Wire) -> None:
    names = [{"name": "t"}] * TOO_MANY
    answer = wire.ask("metadata", 13, topics=names)
    assert answer.error_code is ErrorCode.invalid_request
    answer = wire.ask("offset_fetch", 7, group_id="g", topics=[{"name": "t"}] * TOO_MANY)
    assert answer.error_code is ErrorCode.invalid_request
    assert wire.ask("metadata", 13, topics=[{"name": "t"}]).topics[0].name == "t", "it goes on"


def test_too_many_elements_end_the_connection_where_it_has_none(wire: Wire) -> None:
    with pytest.raises(ConnectionClosed):
        wire.ask("metadata", 12, topics=[{"name": "t"}] * TOO_MANY)


async def test_one_piece_of_all_that_is_done_in_turns_is_done_in_each() -> None:
    done: list[int] = []

    async def work(number: int, pieces: int) -> None:
        for _ in range(pieces):
            done.append(number)
            await give_way()

    long = [asyncio.create_task(work(number, 50)) for number in range(200)]
    while len(done) < 5_000:
        before = len(done)
        await asyncio.sleep(0)
        assert len(done) - before <= 1 or before < 200, "each begins at once"
    little = asyncio.create_task(work(-1, 5))
    before = len(done)
    await little
    assert len(done) - before < 50
    long[7].cancel()
    await asyncio.gather(*long, return_exceptions=True)
    assert all(done.count(number) == 50 for number in range(200) if number != 7)


async def test_few_hold_a_place_at_a_time_and_one_that_is_stopped_leaves_it() -> None:
    few, held, most, done = Few(3), 0, 0, list[float]()

    async def work(had: float) -> None:
        nonlocal held, most
        async with few.place(had):
            held += 1
            most = max(most, held)
            try:
                await give_way()
                await give_way()
            finally:
                held -= 1
        done.append(had)

    tasks = [asyncio.create_task(work(10.0 + number)) for number in range(50)]
    await asyncio.sleep(0)
    light = asyncio.create_task(work(0.0))
    await asyncio.sleep(0)
    for task in tasks[1:20:3]:  # one that holds a place, and some that wait for one
        task.cancel()
    await light
    assert len(done) <= 9
    tasks[30].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most == 3
    assert few._free == 3
    assert len(done) == 51 - 8


def test_whatever_is_done_in_turns_in_the_broker_gives_way_to_all_the_others() -> None:
    """`asyncio.sleep(0)` lets each of two hundred have its piece in the same turn."""
    package = Path(slices.__file__).parent
    assert [path for path in package.rglob("*.py") if "asyncio.sleep(0)" in path.read_text()] == []


class _Client:
    """A connection, as `Turns` sees it: it asks for much, or for little, again and again."""

    def __init__(
        self, loop_turns: Turns, served: list[object], seconds: float, network: str
    ) -> None:
        self._loop_turns, self._served, self._seconds = loop_turns, served, seconds
        self.network, self.turns = network, Had(HALF_S)
        self.waited = [0]

    def ask(self) -> None:
        self.waited.append(len(self._served))
        self._loop_turns.wait(self)  # type: ignore[arg-type]

    def go_on(self) -> None:
        self._served.append(self)
        self.waited[-1] = len(self._served) - self.waited[-1]
        now = self._loop_turns._supervisor.monotonic()
        self._loop_turns.took(self, now - self._seconds)  # type: ignore[arg-type]
        if len(self._served) < 3_000:
            self.ask()


@pytest.mark.parametrize("others", ["127.0.0.1", "127.0.0.2"], ids=["of one address", "of another"])
def test_a_client_that_asks_for_little_is_served_before_those_that_ask_for_much(
    data: Path, others: str
) -> None:
    """Those of another address may come anew for each request: they count as one."""
    served: list[object] = []
    with serving(data) as broker:
        supervisor = broker.broker.supervisor

        def begin() -> tuple[_Client, list[_Client]]:
            loop_turns = Turns(supervisor)
            supervisor.monotonic = lambda: 0.01 * len(served)
            busy = [_Client(loop_turns, served, 0.01, others) for _ in range(200)]
            light = _Client(loop_turns, served, 0.0001, "127.0.0.1")
            for each in (*busy, light):
                each.ask()
            return light, busy

        monotonic = supervisor.monotonic
        light, busy = broker.call(begin)
        until(lambda: len(served) >= 3_000, "them to be served")
        supervisor.monotonic = monotonic
        assert max(light.waited[9:-1]) <= 4, light.waited
        assert {*busy} <= {*served}, "the others get on"
