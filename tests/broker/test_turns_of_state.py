"""What one turn of the event loop does must not grow with what there is: APIs, hang-ups, timers.

Work is counted in lines of Python that are run, loops inside expressions included, which says the same on
every machine. Two brokers differ in how much there is (`much_state`). A request that costs more than `FREE`
lines for each thing that there is more of must stand in `GROWS`, with the reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

import pytest
from kio.index import load_request_schema

from headwater.broker.registry import Context, load_apis
from headwater.broker.transactions.transaction import State
from headwater.testing.clock import ManualClock
from headwater.wire import messages
from headwater.wire.errors import WireError
from tests.broker.much_state import (
    MEMBERS,
    OFFSETS,
    PENDING,
    PRODUCER,
    SETTINGS,
    SHARE,
    TOPIC,
    WIDE,
    WIDE_ID,
    MuchState,
)
from tests.broker.serving import serving
from tests.compat.batches import batch
from tests.compat.wire import build
from tests.fuzz.requests import Known, Requests

FEW, MANY = 80, 320
FREE = 10
"""Lines for each thing, of which there may be some 50,000: so many lines take 25 ms."""
LINE_S = 2e-6
"""Slow enough for whoever rests after some time to rest after some 2,500 lines."""
PATIENCE, AFTERWARDS = 1500, 60
"""Turns after which a request that waits is given up, and for which one is watched that is answered."""
LOOKS = 4
LONG_AGO = -1
PIECE = 10
GROWS: dict[str, float] = {
    # What one group reads is assigned in one turn, to all of its members.
    "consumers are silent": 20,
}
"""Lines for each thing, where all are looked at in one turn: of 10,000 they take some 10 ms."""


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MuchState, MuchState]]:
    with contextlib.ExitStack() as stack:
        _cut_small(stack.enter_context(pytest.MonkeyPatch.context()))
        made = []
        for count in (FEW, MANY):
            data = tmp_path_factory.mktemp("state") / "data"
            broker = stack.enter_context(serving(data, SETTINGS, clock=ManualClock()))
            made.append(MuchState(broker, count))
        yield made[0], made[1]


def _cut_small(patch: pytest.MonkeyPatch) -> None:
    """What is cut by number is cut to pieces of which many are in what there is."""
    names = ("AT_ONCE", "SLICE_ELEMENTS", "LOOKS_AT_ONCE", "PARTS_AT_ONCE", "SEGMENTS_AT_ONCE")
    for module in [each for key, each in sys.modules.items() if key.startswith("headwater.broker")]:
        for name in names:
            if hasattr(module, name):
                patch.setattr(module, name, min(PIECE, getattr(module, name)))


class Watch:
    """Counts lines, and remembers of which functions they were in the longest turn."""

    def __init__(self) -> None:
        self.lines, self.longest = 0, 0
        self.total = 0
        self.where: Counter[CodeType] = Counter()
        self.most: Counter[CodeType] = Counter()

    def trace(self, frame: FrameType, event: str, _: object) -> Any:
        if event in ("call", "line"):  # a generator that goes on is called
            self.lines += 1
            self.total += 1
            self.where[frame.f_code] += 1
        return self.trace

    def turn(self) -> None:
        if self.lines > self.longest:
            self.longest, self.most = self.lines, self.where
        self.lines, self.where = 0, Counter()

    def __str__(self) -> str:
        named = [
            f"{count} in {code.co_qualname} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"
            for code, count in self.most.most_common(5)
        ]
        return ", ".join(named)


Begin = Callable[[], Awaitable[object] | object]


def watched(state: MuchState, prepare: Callable[[], Begin]) -> Watch:
    """What is begun, and what comes of it in the turns behind; what comes before it is not counted."""
    supervisor, watch = state.broker.supervisor, Watch()
    monotonic = supervisor.monotonic

    async def run() -> None:
        supervisor.monotonic = lambda: watch.total * LINE_S
        begin = prepare()
        sys.settrace(watch.trace)
        try:
            task = asyncio.ensure_future(_begun(begin))
            left = PATIENCE
            while left:
                await asyncio.sleep(0)
                watch.turn()
                left = min(left - 1, AFTERWARDS) if task.done() else left - 1
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        finally:
            sys.settrace(None)
            supervisor.monotonic = monotonic

    state.serving.run(run())
    return watch


def look_at(
    states: tuple[MuchState, MuchState], prepared: Callable[[MuchState], Callable[[], Begin]]
) -> tuple[Watch, Watch]:
    few, many = states
    return watched(few, prepared(few)), watched(many, prepared(many))


async def _begun(begin: Begin) -> None:
    outcome = begin()
    if isinstance(outcome, Awaitable):
        await outcome


def check_by_looking(name: str, look: Callable[[], tuple[Watch, Watch]]) -> None:
    """What grows does so every time. Which of the disk's answers meet in one turn is the threads' chance, and
    many may meet once; so whatever is within bounds in one of a few looks is so by itself."""
    for _ in range(LOOKS - 1):
        with contextlib.suppress(AssertionError):
            return check(name, *look())
    return check(name, *look())


def check(name: str, few: Watch, many: Watch) -> None:
    grows = (many.longest - few.longest) / (MANY - FEW)
    allowed = GROWS.get(name, FREE)
    assert grows <= allowed, (
        f"{few.longest} lines in the longest turn with {FEW} things, {many.longest} with {MANY}: {many}"
    )


# ---- APIs ----------------------------------------------------------------------------------------------


def asked(state: MuchState, key: int) -> list[dict[str, Any]]:
    """Requests that reach as far as they can, beside those that are made by chance."""
    ids = state.broker.catalogue.topics
    part = {"partition_index": 0, "committed_offset": 5, "partition": 0, "index": 0}
    topic = {"name": TOPIC, "topic_id": ids[TOPIC].id, "topic": TOPIC}
    producer = {"transactional_id": WIDE_ID, "producer_id": PRODUCER, "producer_epoch": 0}
    share = {"group_id": SHARE, "member_id": "s0"}
    one_of_all = {"num_partitions": 1, "replication_factor": 1}
    places = [{"topic_id": ids[WIDE].id, "partitions": [{"partition_index": 0}]}]
    many = [{"partition_index": number} for number in range(state.count)]
    begun = {**share, "share_session_epoch": 0, "max_bytes": 1 << 20, "min_bytes": 1}
    wide = {**begun, "topics": [{"topic_id": ids[WIDE].id, "partitions": many}]}
    nowhere = {**begun, "topics": [{"topic_id": uuid.UUID(int=5), "partitions": many}]}
    table: dict[int, list[dict[str, Any]]] = {
        0: [
            {
                "acks": -1,
                "timeout": 5000,
                "topic_data": [{**topic, "partition_data": [{**part, "records": batch()}]}],
            }
        ],
        1: [
            {
                "session_epoch": 0,
                "max_bytes": 1 << 20,
                "topics": [
                    {**topic, "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}
                ],
            }
        ],
        3: [{"topics": [{"name": TOPIC, "topic_id": uuid.UUID(int=0)}]}],
        8: [
            {
                "group_id": "g1",
                "generation_id_or_member_epoch": -1,
                "topics": [{**topic, "partitions": [part]}],
            }
        ],
        9: [
            {
                "groups": [
                    {
                        "group_id": PENDING,
                        "member_epoch": -1,
                        "topics": [{**topic, "partition_indexes": [0]}],
                    }
                ],
                "require_stable": True,
            }
        ],
        12: [{"group_id": MEMBERS, "member_id": "m1", "generation_id": 1}],
        13: [{"group_id": "g1", "members": [{"member_id": "nobody"}]}],
        15: [{"groups": ["g1"]}],
        16: [{}],
        19: [{"topics": [{"name": f"new{state.count}", **one_of_all}], "timeout": 9000}],
        20: [{"topics": [{"name": TOPIC}], "timeout": 9000}],
        22: [
            {
                "transactional_id": "x1",
                "transaction_timeout": 1000,
                "producer_id": -1,
                "producer_epoch": -1,
            }
        ],
        24: [
            {
                "transactions": [
                    {
                        **producer,
                        "verify_only": False,
                        "topics": [{"name": TOPIC, "partitions": [0]}],
                    }
                ]
            }
        ],
        25: [{**producer, "group_id": "g1"}],
        26: [{**producer, "committed": True}],
        28: [{**producer, "group_id": "g1", "topics": [{**topic, "partitions": [part]}]}],
        37: [
            {
                "topics": [{"name": f"topic{state.count // 8}", "count": 2, "assignments": None}],
                "timeout": 9000,
            }
        ],
        42: [{"groups_names": [OFFSETS]}, {"groups_names": ["g2"]}, {"groups_names": [SHARE]}],
        47: [{"group_id": OFFSETS, "topics": [{"name": WIDE, "partitions": [part]}]}],
        66: [{"duration_filter": -1}],
        68: [
            {
                "group_id": MEMBERS,
                "member_id": "m1",
                "member_epoch": 0,
                "rebalance_timeout": 60_000,
                "subscribed_topic_names": [WIDE],
                "topic_partitions": [],
            },
            {"group_id": MEMBERS, "member_id": "m1", "member_epoch": -1},
        ],
        69: [{"group_ids": [MEMBERS]}],
        76: [
            {**share, "member_epoch": 0, "subscribed_topic_names": [WIDE]},
            {**share, "member_epoch": -1},
        ],
        77: [{"group_ids": [SHARE]}],
        78: [
            {**share, "share_session_epoch": 0, "max_bytes": 1 << 20, "topics": places},
            {**share, "share_session_epoch": -1, "topics": []},
            {**wide, "max_records": 1 << 20, "batch_size": 500},
            {**wide, "max_records": 1 << 20, "batch_size": 500, "max_wait": 10_000},
            nowhere,
        ],
        79: [{**share, "share_session_epoch": -1, "topics": []}],
        90: [{"groups": [{"group_id": SHARE, "topics": None}]}],
    }
    return table.get(key, [])


def by_chance(state: MuchState, key: int, version: int) -> Any:
    topics = state.broker.catalogue.topics
    names = [TOPIC, WIDE, "topic1"]
    known = Known(names, [topics[name].id for name in names], ["g1", OFFSETS, SHARE, MEMBERS])
    for seed in range(key, key + 100):
        frame = memoryview(Requests(known, random.Random(seed)).frame(key, version))
        with contextlib.suppress(WireError):
            return messages.weighed(frame, messages.read_header(frame))[0]
    raise AssertionError("no request can be made")


def requests(state: MuchState, key: int, version: int) -> list[Any]:
    schema = load_request_schema(key, version)
    made = [build(schema, each, lenient=True) for each in asked(state, key)]
    return [*made, by_chance(state, key, version)]


@pytest.mark.parametrize("key", sorted(load_apis().keys() - {17, 36}))
def test_no_turn_of_a_request_grows_with_what_there_is(
    states: tuple[MuchState, MuchState], key: int
) -> None:
    api = load_apis()[key]
    version = api.versions[1]
    states[0].fill()
    for number in range(len(asked(states[0], key)) + 1):

        def asked_for(state: MuchState) -> Callable[[], Begin]:
            state.fill()
            request = requests(state, key, version)[number]  # noqa: B023
            context = Context(version, "client", "host")
            handle = state.broker.apis[key].handle
            return lambda: lambda: handle(state.broker, request, context)

        check_by_looking(api.name, lambda: look_at(states, asked_for))


# ---- hang-ups and timers -------------------------------------------------------------------------------


def _sharers_are_silent(state: MuchState) -> Begin:
    shares = state.broker.shares
    for member in shares.groups[SHARE].members.values():
        member.deadline = LONG_AGO
    return lambda: shares._expire_members(SHARE)


def _locks_end(state: MuchState) -> Begin:
    shares = state.broker.shares
    for owner in shares.owners.values():
        for run in owner.state.runs if owner.state else ():
            run.deadline = min(run.deadline, LONG_AGO)
        shares.wake_at(owner, LONG_AGO)
    return shares._deadlines.fire


def _groups_are_due(state: MuchState) -> Begin:
    core = state.broker.groups._core
    for name in list(core.groups):
        core.deadlines.wake(name, LONG_AGO)
    return core.deadlines.fire


def _members_are_silent(state: MuchState) -> Begin:
    core = state.broker.groups._core
    for member in core.groups[MEMBERS].members.values():
        member.session_deadline = LONG_AGO
    core.deadlines.wake(MEMBERS, LONG_AGO)
    return core.deadlines.fire


def _transactions_time_out(state: MuchState) -> Begin:
    values = state.broker.transactions.transactions
    for name, value in list(values.items()):
        values[name] = replace(value, timeout_ms=-1)
    return state.broker.transactions._abort_overdue


def _ids_expire(state: MuchState) -> Begin:
    values = state.broker.transactions.transactions
    for name, value in list(values.items()):
        values[name] = replace(value, state=State.EMPTY, updated_ms=0)
    return state.broker.transactions._forget_expired


TIMERS: dict[str, Callable[[MuchState], Begin]] = {
    "a connection of share consumers hangs up": lambda state: (
        lambda: state.broker.shares.disconnected(state.connection)
    ),
    "share consumers are silent": _sharers_are_silent,
    "locks of a share group end": _locks_end,
    "all groups are due": _groups_are_due,
    "consumers are silent": _members_are_silent,
    "transactions time out": _transactions_time_out,
    "transactional ids expire": _ids_expire,
    "offsets expire": lambda state: state.broker.groups.removal.expire,
    "state is counted": lambda state: state.broker.state.recount,
    "share state is tidied": lambda state: state.broker.shares.tidy,
    "retention": lambda state: state.broker.housekeeping.retain,
    "release": lambda state: state.broker.housekeeping._release,
    "checkpoint": lambda state: state.broker.housekeeping._checkpoint,
    "idle connections": lambda state: state.broker.housekeeping._close_idle,
}
"""What to do before, and then the timer itself."""


@pytest.mark.parametrize("name", TIMERS)
def test_no_turn_of_a_hang_up_or_timer_grows_with_what_there_is(
    states: tuple[MuchState, MuchState], name: str
) -> None:
    def due(state: MuchState) -> Callable[[], Begin]:
        state.fill()
        return lambda: TIMERS[name](state)

    check_by_looking(name, lambda: look_at(states, due))


def test_a_loop_that_rests_for_nobody_is_found_out(states: tuple[MuchState, MuchState]) -> None:
    def greedy(state: MuchState) -> Callable[[], Begin]:
        state.fill()
        groups = state.broker.groups

        def look() -> int:
            return sum(len(groups.offsets_of(name).topics) + len(name) for name in groups.groups)

        def looks() -> None:
            for _ in range(5):
                look()

        return lambda: looks

    with pytest.raises(AssertionError, match="look"):
        check_by_looking("a loop", lambda: look_at(states, greedy))


def test_those_that_are_known_to_grow_are_there() -> None:
    assert GROWS.keys() <= {api.name for api in load_apis().values()} | TIMERS.keys()
