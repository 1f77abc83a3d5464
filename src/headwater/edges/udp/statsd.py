"""StatsD lines to records: `api.requests:1|c|@0.1|#env:prod` becomes key and JSON. Pure; called by `bridge`.

    NAME:VALUE|TYPE[|@RATE][|#TAG:VALUE,TAG][|TSECONDS][|c:CONTAINER][|e:EXTERNAL][|card:CARDINALITY]

As StatsD and DogStatsD write it, up to DogStatsD 1.4. The key is the name; the value one JSON object:

    name      as it was sent
    value     the number as it was written; of a set, its member as text
    type      counter, gauge, timer (ms), histogram, distribution, set, meter
    rate      the share that was sent at all: sum(value / rate) is the estimate; 1 where none was said
    tags      an object; a tag without value is "", one that came twice has both, with a comma between
    change    gauges: true where the line had a sign, so `value` is to be added to what the gauge was
    timestamp seconds, container, external, cardinality: where the line had them; other: fields unknown to us

A line with several values (`name:1:2:3|ms`) gives a record for each, so that no reader has to know of it;
the member of a set may hold colons and is one. The time that a line names does not become the record's: a
datagram from nowhere could otherwise keep a segment from ever growing old.

The name and all that follows the value repeat from line to line: their JSON is remembered, within a bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import orjson

NAME_BYTES_MAX = 1024
"""Longer ones are no names; they would fill the memory of those that are."""
REMEMBERED = 16_384
REMEMBERED_BYTES_MAX = 512
"""A longer ending is understood anew each time: 64 KiB each would add up to a gigabyte."""
_TYPES = {
    b"c": "counter",
    b"g": "gauge",
    b"ms": "timer",
    b"h": "histogram",
    b"d": "distribution",
    b"s": "set",
    b"m": "meter",
}
_NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?").fullmatch
_JSON_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]{0,17})(?:\.[0-9]{1,17})?").fullmatch
_CONTROL = re.compile("[\x00-\x1f\x7f]").search


class Malformed(Exception):
    """Not a line of StatsD, and why: one of a few sentences, never what was sent."""


class Metric(NamedTuple):
    """One record."""

    key: bytes
    value: bytes


def metrics(line: bytes) -> list[Metric]:
    """The records of one line, without its end. Raises Malformed."""
    name, _, rest = line.partition(b":")
    values, bar, tail = rest.partition(b"|")
    if not bar:
        raise Malformed("it is not NAME:VALUE|TYPE")
    head = _head(name)
    kind, ending = _ending(tail) if len(tail) <= REMEMBERED_BYTES_MAX else _understand(tail)
    if kind == "set":
        member = orjson.dumps(_text(values, "the member of a set"))
        return [Metric(name, head + member + ending)]
    if kind == "gauge":
        return [Metric(name, head + _gauge(each) + ending) for each in values.split(b":")]
    if b":" in values:
        return [Metric(name, head + _number(each) + ending) for each in values.split(b":")]
    return [Metric(name, head + _number(values) + ending)]


def lines(datagram: bytes) -> list[bytes]:
    """A datagram holds one line or several; the last may end without a line feed."""
    if b"\n" not in datagram:
        return [datagram] if datagram else []
    return [line for each in datagram.split(b"\n") if (line := each.rstrip(b"\r"))]


@lru_cache(REMEMBERED)
def _head(name: bytes) -> bytes:
    if not name:
        raise Malformed("it has no name")
    if name.startswith((b"_e{", b"_sc|")):
        raise Malformed("it is an event or a service check of DogStatsD, and no metric")
    if len(name) > NAME_BYTES_MAX:
        raise Malformed(f"its name is longer than {NAME_BYTES_MAX} bytes")
    return b'{"name":' + orjson.dumps(_text(name, "the name")) + b',"value":'


def _number(written: bytes) -> bytes:
    """As JSON, and as it was written where JSON writes it so too."""
    if _JSON_NUMBER(written):
        return written
    if not _NUMBER(written):
        raise Malformed("its value is no number")
    value = float(written)
    if value in (float("inf"), float("-inf")):
        raise Malformed("its value is no number")
    # An integer stays one: 1e3 and +5 are written otherwise than JSON would.
    return orjson.dumps(int(value) if value.is_integer() and abs(value) < 2**53 else value)


def _gauge(written: bytes) -> bytes:
    number = _number(written)
    return number + b',"change":true' if written[:1] in b"+-" else number


def _understand(tail: bytes) -> tuple[str, bytes]:
    """The type, and the rest of the object after the value."""
    first, *fields = tail.split(b"|")
    kind = _TYPES.get(first)
    if kind is None:
        raise Malformed("its type is none of c, g, ms, h, d, s, m")
    said: dict[str, object] = {"type": kind, "rate": 1, "tags": {}}
    other = [_text(field, "a field") for field in fields if not _understood(field, said)]
    if other:
        said["other"] = other
    return kind, b"," + orjson.dumps(said)[1:]


_ending = lru_cache(REMEMBERED)(_understand)


def _understood(field: bytes, said: dict[str, object]) -> bool:
    if not field:
        return True  # clients leave an empty field where they have no tags
    for mark, key, read in _FIELDS:
        if field.startswith(mark):
            said[key] = read(field[len(mark) :])
            return True
    return False


def _rate(written: bytes) -> float:
    number = float(written) if _NUMBER(written) else 0.0
    if not 0 < number <= 1:
        raise Malformed("its sample rate is not above 0 and at most 1")
    return int(number) if number == 1 else number


def _tags(written: bytes) -> dict[str, str]:
    tags: dict[str, str] = {}
    for each in written.split(b","):
        if not each:
            continue
        name, _, value = _text(each, "a tag").partition(":")
        tags[name] = f"{tags[name]},{value}" if name in tags else value
    return tags


def _seconds(written: bytes) -> int:
    if not written.isdigit() or len(written) > 12:
        raise Malformed("its timestamp is not in whole seconds")
    return int(written)


def _text(written: bytes, what: str) -> str:
    try:
        text = written.decode()
    except UnicodeDecodeError:
        raise Malformed(f"{what} is no UTF-8") from None
    if _CONTROL(text):
        raise Malformed(f"{what} holds a control character")
    return text


def _plain(written: bytes) -> str:
    return _text(written, "a field")


_FIELDS: tuple[tuple[bytes, str, Callable[[bytes], object]], ...] = (
    (b"@", "rate", _rate),
    (b"#", "tags", _tags),
    (b"T", "timestamp", _seconds),
    (b"c:", "container", _plain),
    (b"e:", "external", _plain),
    (b"card:", "cardinality", _plain),
)
