"""JSON that strangers send, as values in memory: bounded where it must become that, not made where it need
not; pure. Called by what takes bodies apart (`ndjson`, `cloud_events`, `schemas`, `rest.formats`, hooks); and
values as JSON that waits for clients.

What is checked as a whole has `VALUES_MAX` values (`wire.json_size` says why), and one field is read without
the others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import msgspec
import orjson

from headwater.json_size import MANY, VALUES_MAX, many

_ANY = msgspec.json.Decoder()
_RAW = msgspec.json.Decoder(msgspec.Raw)
_NONE = msgspec.Raw()
_LEVELS_MAX = 256


def kept(said: object) -> bytes:
    """JSON that waits in memory with many others: what `orjson` gives out keeps its buffer of 4 KiB."""
    return memoryview(orjson.dumps(said)).tobytes()


def is_json(text: bytes) -> bool:
    """Whether it is a value; of a large text the values in it are not made."""
    try:
        if len(text) <= VALUES_MAX:
            orjson.loads(text)
        else:
            text.decode()
            _RAW.decode(text)
    except (orjson.JSONDecodeError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def end_of(text: str, place: int) -> int:
    """Of the value that begins there, without making it. Raises ValueError."""
    depth = begun = 0
    for found in _BRACKET.finditer(text, place):
        step = _DEPTH.get(found[0], 0)
        depth += step
        begun += step > 0
        if begun > VALUES_MAX:  # what is behind them is not looked at: a body may be full of them
            raise ValueError(f"{MANY} in one record")
        if depth <= 0:
            break
    else:
        raise ValueError("it ends in the middle")
    if (why := many(text[place : found.end()].encode())) is not None:
        raise ValueError(f"{why} in one record")
    return found.end()


_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"|[\[\]{}]', re.DOTALL)
_DEPTH = {"[": 1, "{": 1, "]": -1, "}": -1}


def at(text: bytes, names: Sequence[str]) -> str | int | float | None:
    """The text or number at this path; None: there is none. Raises DecodeError, ValueError."""
    raw = text
    for name in names:
        level = _level(name)
        if level is None:
            return _looked_up(text, names)
        try:
            raw = bytes(level.decode(raw).value)
        except msgspec.ValidationError:
            return None  # no object
        if not raw:
            return None
    if raw[:1] not in _SCALARS:
        return None
    found: str | int | float = _ANY.decode(raw)
    return found


_SCALARS = frozenset(map(bytes, zip(b'"-0123456789', strict=True)))


class _Member(Protocol):
    @property
    def value(self) -> msgspec.Raw: ...


class _Level(Protocol):
    def decode(self, text: bytes, /) -> _Member: ...


@lru_cache(_LEVELS_MAX)
def _level(name: str) -> _Level | None:
    """Reads one member of an object, and passes over the others; None for a name that it cannot have."""
    try:
        found = msgspec.field(default=_NONE, name=name)
        shape = msgspec.defstruct("Level", [("value", msgspec.Raw, found)], gc=False)
    except ValueError:  # control characters, quotes, half a surrogate pair
        return None
    return msgspec.json.Decoder(shape)


def _looked_up(text: bytes, names: Sequence[str]) -> str | int | float | None:
    if (why := many(text)) is not None:
        raise ValueError(why)
    found = _ANY.decode(text)
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return None
    return found
