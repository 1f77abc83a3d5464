"""A request taken apart: each thing that it asks for, with its row of the answer; pure. For `changes`.

Requests and answers are kio's: of whatever version, a field that it does not have is as good as empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, repeat

from headwater.broker.registry import Response

Pair = tuple[object, Response]
Pairs = Callable[[object, Response], Iterator[Pair]]
NO_ROW: Response = {}


def text(part: object, name: str) -> str:
    """A field of a part of a request; nothing where it has none."""
    return str(getattr(part, name, None) or "")


def number(part: object, name: str) -> int:
    return int(getattr(part, name, 0))


def parts_of(part: object, name: str) -> Sequence[object]:
    return tuple(getattr(part, name, None) or ())


def matched(
    parts: Iterable[tuple[Hashable, object]], rows: Iterable[tuple[Hashable, Response]]
) -> Iterator[Pair]:
    """By their keys. What a request names several times has its rows in the same order."""
    found: dict[Hashable, Response] = {}
    more: dict[Hashable, deque[Response]] = {}
    for key, row in rows:
        if key in found:
            more.setdefault(key, deque()).append(row)
        else:
            found[key] = row
    for key, part in parts:
        yield part, found.get(key, NO_ROW)
        if more and more.get(key):
            found[key] = more[key].popleft()


def by_name(*asked: str, answered: str, name: str = "name") -> Pairs:
    def pairs(request: object, response: Response) -> Iterator[Pair]:
        parts = chain.from_iterable(parts_of(request, each) for each in asked)
        rows = ((row.get(name), row) for row in response.get(answered, ()))
        return matched(((text(each, "name"), each) for each in parts), rows)

    return pairs


def in_order(asked: str, answered: str) -> Pairs:
    def pairs(request: object, response: Response) -> Iterator[Pair]:
        rows = chain(response.get(answered) or (), repeat(NO_ROW))
        return zip(parts_of(request, asked), rows, strict=False)

    return pairs


def answers(answered: str) -> Pairs:
    """The rows of the answer say it all."""
    return lambda _, response: ((row, row) for row in response.get(answered, ()))


def whole(request: object, response: Response) -> Iterator[Pair]:
    yield request, response


def partitions(request: object, response: Response) -> Iterator[Pair]:
    parts = (
        ((text(topic, "name"), number(part, "partition_index")), (text(topic, "name"), part))
        for topic in parts_of(request, "topics")
        for part in parts_of(topic, "partitions")
    )
    rows = (
        ((topic["name"], row["partition_index"]), row)
        for topic in response.get("topics", ())
        for row in topic["partitions"]
    )
    return matched(parts, rows)


def resources(request: object, response: Response) -> Iterator[Pair]:
    parts = (
        ((number(each, "resource_type"), text(each, "resource_name")), each)
        for each in parts_of(request, "resources")
    )
    rows = (
        ((int(row["resource_type"]), row["resource_name"]), row)
        for row in response.get("responses", ())
    )
    return matched(parts, rows)
