"""How a request is told: taken apart, and each part described for itself, with its row of the answer; pure.

Whatever is in one part, the others are told, and one that cannot be described is told as that. What is done
comes in full; what is refused, which anybody can have in any number, with its name, its error and a few plain
details. `changes` has the descriptions, made of what is below; all bounds are in `limits`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import chain, islice, repeat

from kio.schema.errors import ErrorCode

from headwater.broker.audit.limits import CHANGES_MAX, ITEMS_MAX, PLAIN_MAX
from headwater.broker.registry import Response

Pair = tuple[object, Response]
Pairs = Callable[[object, Response], Iterator[Pair]]
NO_ROW: Response = {}
_ERRORS = {int(code): str(code.name).upper() for code in ErrorCode}


@dataclass(frozen=True)
class Change:
    """`what` was done to the `kind` of that `name`; `error`: Kafka's name of why it was not."""

    what: str
    kind: str
    name: str
    details: Mapping[str, object] = field(default_factory=dict)
    error: str | None = None


BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What pure code ends with that meets something it does not expect."""
UNKNOWN = Change("change", "request", "cannot be described")
MayTell = Callable[[str], bool]
"""Whether one more refusal, with this error, is told."""


@dataclass(frozen=True)
class Description:
    """How a request is taken apart, and what is said of each part."""

    pairs: Pairs
    change: Callable[[object, Response], Change]


def described(
    how: Description, request: object, response: Response, may_tell: MayTell
) -> Iterator[Change]:
    """In the order of the request: what was done, up to `CHANGES_MAX`, and the refusals that may be told."""
    done = 0
    for part, row in how.pairs(request, response):
        error = _error(row)
        done += error is None
        if done <= CHANGES_MAX if error is None else may_tell(error):
            yield _described(how, part, row, error)
    if done > CHANGES_MAX:
        left = done - CHANGES_MAX
        yield Change("and more", "request", f"{left} more changes in the same request")


def _described(how: Description, part: object, row: Response, error: str | None) -> Change:
    try:
        change = how.change(part, row)
    except BROKEN as failure:  # whatever a client has put into it
        change = replace(UNKNOWN, details={"because": repr(failure)})
    details = change.details
    if error is not None:
        plain = ((k, v) for k, v in details.items() if isinstance(v, str | int))
        details = dict(islice(plain, PLAIN_MAX))
    return replace(change, error=error, details=details)


def _error(row: Response) -> str | None:
    code = row.get("error_code")
    return _ERRORS.get(int(code), str(code)) if code else None


# ---- taking apart: a field that a version does not have is as good as empty -----------------------


def text(part: object, name: str) -> str:
    """A field of a part of a request; nothing where it has none."""
    return str(getattr(part, name, None) or "")


def number(part: object, name: str) -> int:
    return int(getattr(part, name, 0))


def parts_of(part: object, name: str) -> Sequence[object]:
    return tuple(getattr(part, name, None) or ())


def word(kind: type[IntEnum], value: int) -> str:
    try:
        return str(kind(value).name).lower()
    except ValueError:
        return str(value)


def first(some: Sequence[object], say: Callable[[object], tuple[str, object]]) -> dict[str, object]:
    """What is said of the first; the rest is counted."""
    found = dict(map(say, some[:ITEMS_MAX]))
    left = len(some) - ITEMS_MAX
    return {**found, "and more": left} if left > 0 else found


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
