"""Requests that ask about thousands of things are answered slice by slice, so that nobody else waits.

The broker puts this in front of the handlers of such APIs, outside of every other gate. A request with few
elements goes straight through. One with many becomes several of `SLICE_ELEMENTS`, which the handler
answers one after the other, each in a turn of the event loop of its own; the answers are put together
again. Only APIs are here whose elements have nothing to do with each other:

    request    topics [ a: 0 1 2 … 9999 ]            response  topics [ a: 0 … 249 ]  topics [ a: 250 … ] …
    slices     topics [ a: 0 … 249 ]  topics [ a: 250 … ] …    ─▶  topics [ a: 0 … 9999 ]
"""

from __future__ import annotations

import inspect
from collections.abc import (
    Awaitable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Handler, Later, Response
from headwater.broker.turns import give_way

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


SLICE_ELEMENTS = 250
T = TypeVar("T")


class Path(NamedTuple):
    """Where the elements are: arrays within arrays, by their names from the outside inwards."""

    request: tuple[str, ...]
    response: tuple[str, ...]
    once: bool = False
    """The handler answers each thing once, however often it is asked for (`once`)."""


PATHS = {
    2: Path(("topics", "partitions"), ("topics", "partitions")),
    3: Path(("topics",), ("topics",), once=True),
    9: Path(
        ("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"), once=True
    ),
    10: Path(("coordinator_keys",), ("coordinators",)),
    15: Path(("groups",), ("groups",), once=True),
    20: Path(("topics",), ("responses",)),
    21: Path(("topics", "partitions"), ("topics", "partitions")),
    23: Path(("topics", "partitions"), ("topics", "partitions")),
    32: Path(("resources",), ("results",), once=True),
    42: Path(("groups_names",), ("results",)),
    43: Path(("topic_partitions", "partitions"), ("replica_election_results", "partition_result")),
    45: Path(("topics", "partitions"), ("responses", "partitions")),
    55: Path(("topics", "partitions"), ("topics", "partitions")),
    61: Path(("topics", "partition_indexes"), ("topics", "partitions"), once=True),
    65: Path(("transactional_ids",), ("transaction_states",), once=True),
    69: Path(("group_ids",), ("groups",), once=True),
    77: Path(("group_ids",), ("groups",), once=True),
    89: Path(("group_ids",), ("groups",), once=True),
    90: Path(("groups", "topics", "partitions"), ("groups", "topics", "partitions"), once=True),
}
"""By API key; versions that have no such array are not sliced."""


def sliced(apis: Mapping[int, Api]) -> dict[int, Api]:
    """The same APIs, those of `PATHS` in slices where there is much to do."""
    return {
        key: replace(api, handle=_sliced(api.handle, PATHS[key])) if key in PATHS else api
        for key, api in apis.items()
    }


def _sliced(inner: Handler, path: Path) -> Handler:
    def handle(
        broker: Broker, request: Any, context: Context
    ) -> Response | Later | Awaitable[Response]:
        if count(request, path.request) <= SLICE_ELEMENTS:
            return inner(broker, request, context)
        return _one_by_one(inner, path, broker, request, context)

    return handle


async def _one_by_one(
    inner: Handler, path: Path, broker: Broker, request: Any, context: Context
) -> Response:
    whole: dict[str, Any] = {}
    if path.once:
        request = unique(request, path.request)
    for part in split(request, path.request, SLICE_ELEMENTS):
        answer = inner(broker, part, context)
        if inspect.isawaitable(answer):
            answer = await answer
        assert isinstance(answer, dict), "such handlers do not wait for others"
        join(whole, answer, path.response)
        await give_way()
    return whole


def pieces(things: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The same things, so many at a time."""
    for begin in range(0, len(things), size):
        yield things[begin : begin + size]


def count(request: Any, names: Sequence[str]) -> int:
    """How many elements there are; one that has none in it is one."""
    here = getattr(request, names[0], None) or ()
    if len(names) == 1:
        return len(here)
    return sum(max(1, count(each, names[1:])) for each in here)


def unique(request: Any, names: Sequence[str]) -> Any:
    """The same request without what it asks for again."""
    name, inner = names[0], names[1:]
    here = getattr(request, name, None)
    if here is None:
        return request
    found = dict.fromkeys(unique(each, inner) for each in here) if inner else dict.fromkeys(here)
    return replace(request, **{name: tuple(found)})


def split(request: Any, names: Sequence[str], size: int) -> Iterator[Any]:
    """The same request in several, with no more than so many elements each."""
    name, inner = names[0], names[1:]
    taken: list[Any] = []
    room = size
    for each in getattr(request, name):
        if inner and count(each, inner) > room:
            parts = list(split(each, inner, size))
        else:
            parts = [each]
        for part in parts:
            weight = max(1, count(part, inner)) if inner else 1
            if weight > room:
                yield replace(request, **{name: tuple(taken)})
                taken, room = [], size
            taken.append(part)
            room -= weight
    if taken:
        yield replace(request, **{name: tuple(taken)})


def join(whole: dict[str, Any], answer: Mapping[str, Any], names: Sequence[str]) -> None:
    """Add the answer to a slice to those before it. What was split across slices becomes one again."""
    name, inner = names[0], names[1:]
    if not whole:
        whole.update(answer)
        whole[name] = []
    elif whole.get("error_code", ErrorCode.none) is ErrorCode.none and "error_code" in answer:
        whole["error_code"] = answer["error_code"]
    rows = whole[name]
    for row in answer.get(name) or ():
        if inner and rows and _is_the_same(rows[-1], row, inner[0]):
            join(rows[-1], row, inner)
        elif inner and isinstance(row.get(inner[0]), list):
            rows.append({**row, inner[0]: list(row[inner[0]])})
        else:
            rows.append(row)


def _is_the_same(row: Mapping[str, Any], other: Mapping[str, Any], inner: str) -> bool:
    """Whether two rows are about one thing: all they say of it but for its elements."""
    return {**row, inner: None} == {**other, inner: None}
