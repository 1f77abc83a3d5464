"""A dead letter: the record that it is of, and headers that say why it is here. Pure; one form for all.

Whoever writes one comes here: the broker for share groups, all others through `client.dead_letters`.
`cause_of` reads what any of them wrote, also before the form was one.

    __dlq.errors.topic, .partition, .offset   the record; -1 and -1 where it has no place in the log
    __dlq.errors.group                        who could not use it
    __dlq.errors.message                      why
    __dlq.errors.delivery.count               how often it was tried, where that is counted
    __dlq.errors.NAME                         what else is known: `row`, `batch`, `position`, `record`, `line`

Record and headers together may be larger than a record may be, and a letter that cannot be written stops what
it was to keep going. So what is too large is cut, and headers say so:

    __dlq.errors.cut            how many bytes the value had; the letter has the first of them
    __dlq.errors.cut.key        the same of the key
    __dlq.errors.cut.headers    how many headers the record had; the letter has none of them
    __dlq.errors.cut.NAME       how many bytes the header `__dlq.errors.NAME` had, as `row` and `message`

A letter whose value, key or headers were cut is not sent back as it is (`is_cut`), and with a mended value
only if key and headers are whole: the record itself is in the log, at the place that the letter names.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

HEADER = "__dlq.errors."
LETTER_BYTES_MAX = 990_000
"""Below a million, which is what clients and brokers take by default."""
TEXT_BYTES_MAX = 64 * 1024
"""Of a key, of the record's own headers together, and of each of ours."""
_EACH_HEADER = 16

Headers = Sequence[tuple[str, bytes | None]]


class Letter(NamedTuple):
    """As it is written."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, Any]]


@dataclass(frozen=True)
class Cause:
    """Who could not use a record, why, and where the record lies."""

    group: str
    reason: str
    topic: str = ""
    """Also where it is sent back to; of what never was in the log, what people know it by."""
    partition: int = -1
    offset: int = -1
    deliveries: int | None = None
    more: Mapping[str, str] = field(default_factory=dict)


def letter(key: bytes | None, value: bytes | None, own: Headers, cause: Cause) -> Letter:
    """`own`: the record's headers, before those of an earlier letter are left out."""
    kept = own_headers(own)
    cut: dict[str, str] = {}
    ours = {name: text.encode("utf-8", "replace") for name, text in _said(cause).items()}
    for name, text in ours.items():
        if len(text) > TEXT_BYTES_MAX:
            cut[f"cut.{name}"] = str(len(text))
            ours[name] = text[:TEXT_BYTES_MAX].decode("utf-8", "ignore").encode()
    if _size(kept) > TEXT_BYTES_MAX:
        cut["cut.headers"] = str(len(kept))
        kept = []
    if key is not None and len(key) > TEXT_BYTES_MAX:
        cut["cut.key"] = str(len(key))
        key = key[:TEXT_BYTES_MAX]
    headers = [*kept, *((HEADER + name, text) for name, text in ours.items())]
    left = LETTER_BYTES_MAX - len(key or b"") - _size(headers) - 1024
    if value is not None and len(value) > left:
        cut["cut"] = str(len(value))
        value = value[:left]
    return Letter(key, value, headers + [(HEADER + n, v.encode()) for n, v in cut.items()])


def headers_of(cause: Cause) -> list[tuple[str, bytes]]:
    """For a writer who may write what a reader could not be sent otherwise: nothing is cut."""
    return [(HEADER + name, text.encode("utf-8", "replace")) for name, text in _said(cause).items()]


def own_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """The record's, without those of a letter that it was before."""
    return [each for each in headers if not each[0].startswith(HEADER)]


def cause_of(headers: Iterable[tuple[str, bytes | None]]) -> Cause | None:
    """None: this is no dead letter. Rows of an outbox had no more than a topic and a message, once."""
    said = {
        name.removeprefix(HEADER): value.decode("utf-8", "replace")
        for name, value in headers
        if name.startswith(HEADER) and value is not None
    }
    try:
        deliveries = said.pop("delivery.count", None)
        return Cause(
            topic=said.pop("topic"),
            partition=int(said.pop("partition", "-1")),
            offset=int(said.pop("offset", "-1")),
            group=said.pop("group", ""),
            reason=said.pop("message", ""),
            deliveries=None if deliveries is None else int(deliveries),
            more=said,
        )
    except (KeyError, ValueError):
        return None


def is_cut(said: Collection[str], *, but_value: bool = False) -> bool:
    """Whether a letter with these headers of ours, by name, has not all of its record; or of what is beside
    the value."""
    names = ("cut.key", "cut.headers") if but_value else ("cut", "cut.key", "cut.headers")
    return any(name in said for name in names)


def _said(cause: Cause) -> dict[str, str]:
    counted = {} if cause.deliveries is None else {"delivery.count": str(cause.deliveries)}
    return {
        "topic": cause.topic,
        "partition": str(cause.partition),
        "offset": str(cause.offset),
        "group": cause.group,
        **counted,
        "message": cause.reason,
        **cause.more,
    }


def _size(headers: Headers) -> int:
    return sum(len(name.encode()) + len(value or b"") + _EACH_HEADER for name, value in headers)
