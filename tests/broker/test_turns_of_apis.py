"""What one turn of the event loop does for a request must not grow with the request: every API is walked.

Work is counted in calls of functions, which says the same on every machine. Each API is asked about some
hundred things, and about four times as many: if the longest turn grows with them, the API must stand in
`GROWS` with what an element costs at most, so that its longest turn is known. An API that is new is
walked without being named here.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import random
import sys
import uuid
from collections.abc import Iterator
from dataclasses import Field
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from kio.serial._introspect import EntityField, EntityTupleField, classify_field

from headwater.broker.registry import Context, load_apis
from headwater.wire import messages
from headwater.wire.errors import WireError
from tests.broker.serving import Serving, serving
from tests.fuzz.requests import Known, Requests

FEW, MANY = 300, 1200
CALL_S = 1e-6
PATIENCE = 3000
"""Turns after which a request that waits for something else is given up."""

ELSEWHERE = {
    0: "test_produce_turns",
    17: "part of a login: one string",
    36: "part of a login: one token",
}
GROWS = {
    1: 20,
    11: 11,
    32: 11,
    49: 18,
    51: 32,
    57: 14,
    68: 17,
    # The offsets of a request are judged together and are one batch of the log: nobody may see a part.
    8: 27,
    28: 21,
    # All partitions are added to the transaction, or none.
    24: 59,
    # Markers are staged in slices; what grows is that their partitions are named, and the answer.
    27: 21,
    # Resources are changed one by one, with rests; one that comes twice must be seen before any is, and the
    # configs of one are one change.
    33: 26,
    44: 39,
    # Changes nothing; of a partition that several folders name, the last counts.
    34: 62,
    # These are answered in slices; what grows is that they are cut, and asked for each thing once.
    3: 26,
    9: 126,
    45: 20,
    55: 20,
    61: 53,
    90: 108,
}
"""API key: calls that an element costs at most, where all elements are looked at in one turn. A hundred calls
are some ten microseconds, and a request has 32,000 elements at most: half a second would be 150 calls."""
CALLS_MAX = 150
FREE = 10
"""So many calls for each element are nobody's concern: 32,000 elements are some 30 ms."""


class Sized(Requests):
    """Requests with so many elements in their outermost arrays, or (`inner`) in those within them."""

    def __init__(self, known: Known, seed: int, count: int, inner: bool) -> None:
        super().__init__(known, random.Random(seed))
        self._count, self._inner, self._depth = count, inner, 0

    def _field(self, field: Field[Any]) -> Any:
        kind = classify_field(field)
        if not kind.is_array:
            return super()._field(field)
        is_entity = isinstance(kind, EntityField | EntityTupleField)
        count = self._count if self._depth == int(self._inner) else 1
        self._depth += 1
        try:
            made = range(count)
            if is_entity:
                return [self._entity(kind.type_) for _ in made]
            return [self._value(field.name, field.metadata["kafka_type"]) for _ in made]
        finally:
            self._depth -= 1


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder: Path = tmp_path_factory.mktemp("turns")
    with serving(folder / "data") as running:
        yield running


def frame_of(broker: Serving, key: int, version: int, count: int, inner: bool) -> Any:
    if "t" not in broker.broker.catalogue.topics:  # one of these APIs deletes it
        broker.create("t", 3)
    topic_id = broker.broker.catalogue.topics["t"].id
    known = Known(["t", "nope"], [topic_id, uuid.UUID(int=5)], [f"g{n}" for n in range(50)])
    for seed in range(7, 100):
        frame = memoryview(Sized(known, seed, count, inner).frame(key, version))
        with contextlib.suppress(WireError):  # a number that cannot be a time, for one
            return messages.weighed(frame, messages.read_header(frame))[0]
    raise AssertionError("no request can be made")


def longest_turn(broker: Serving, key: int, version: int, request: Any) -> int:
    """How many functions are called in it."""
    calls, work = [0], [0]
    monotonic = broker.broker.supervisor.monotonic

    def counted(frame: FrameType, event: str, argument: object) -> None:
        calls[0] += 1
        work[0] += 1

    async def watched() -> int:
        api, context, longest = broker.broker.apis[key], Context(version, "client", "host"), 0
        # Whoever rests after some time rests after some work, on a machine of whatever speed.
        broker.broker.supervisor.monotonic = lambda: work[0] * CALL_S
        sys.setprofile(counted)
        try:
            answer = api.handle(broker.broker, request, context)
            longest, calls[0] = calls[0], 0
            if not inspect.isawaitable(answer):
                return longest
            task = asyncio.ensure_future(answer)
            for _ in range(PATIENCE):
                await asyncio.sleep(0)
                longest, calls[0] = max(longest, calls[0]), 0
                if task.done():
                    break
            if api.waits or api.only_looks:  # others go on if their client goes away
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return longest
        finally:
            sys.setprofile(None)
            broker.broker.supervisor.monotonic = monotonic

    return broker.run(watched())


@pytest.mark.parametrize("key", sorted(load_apis().keys() - ELSEWHERE.keys()))
def test_no_turn_grows_with_the_request(broker: Serving, key: int) -> None:
    version = load_apis()[key].versions[1]
    costs = {}
    for inner in (False, True):
        few, many = (
            longest_turn(broker, key, version, frame_of(broker, key, version, count, inner))
            for count in (FEW, MANY)
        )
        if many > 1.5 * few and many > FREE * MANY:
            costs[inner] = many // MANY + 1
    allowed = GROWS.get(key, 0)
    cost = max(costs.values(), default=0)
    assert cost <= allowed, f"{cost} calls for each element in one turn; {allowed} are known"


def test_those_that_are_known_to_grow_are_there() -> None:
    assert GROWS.keys() <= load_apis().keys()
    assert max(GROWS.values()) < CALLS_MAX
