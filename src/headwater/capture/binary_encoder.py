"""Rows for a binary encoding: each value taken for what its column's type holds, or refused; for `avro` and
`protobuf`, which write them.

A value that its column's type cannot hold must be an error, never another value.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Sequence

from headwater.capture.change import Record
from headwater.capture.envelope import UNAVAILABLE_TEXT, Column, TableEncoder
from headwater.capture.errors import Misconfigured, SourceRefused
from headwater.schemas.values.header import Json

_ILLEGAL = re.compile(r"[^A-Za-z0-9_]")
PRIMITIVE = {
    **dict.fromkeys(("int8", "int16", "int32"), "int"),
    "int64": "long",
    **{name: name for name in ("float", "double", "boolean", "string", "bytes")},
}
_BITS = {"int": 31, "long": 63}

Fit = Callable[[Json], Json]
Row = dict[str, Json]


class BinaryEncoder(TableEncoder):
    """One table at one moment of its schema. `encoded` makes the bytes."""

    has_nulls_in_lists = True

    def __init__(
        self,
        topic: str,
        columns: Sequence[Column],
        key: Sequence[int],
        *,
        tombstones: bool = True,
    ) -> None:
        super().__init__(topic, columns, key, tombstones=tombstones)
        self._names = [field_name(column.name) for column in columns]
        if len(set(self._names)) < len(columns):
            raise Misconfigured(
                f"two columns of {topic} have the same name where only letters, digits and _ are allowed",
                hint='rename one, or capture with format = "json"',
            )
        self._fits = [_fit(dict(column.connect), self.has_nulls_in_lists) for column in columns]

    def encoded(self, part: str, record: Row) -> bytes:
        """`part`: key or value."""
        raise NotImplementedError

    def key(self, values: Sequence[str]) -> bytes | None:
        if not self.key_places:
            return None
        found = {
            self._names[place]: self._fitted(place, values[place]) for place in self.key_places
        }
        return self.encoded("key", found)

    def created(self, after: Sequence[str], source: str, rest: str, op: str = "c") -> Record:
        return (self.topic, self.key(after), self._value(None, after, source, op, rest))

    def _value(
        self,
        before: Sequence[str] | None,
        after: Sequence[str] | None,
        source: str,
        op: str,
        rest: str,
    ) -> bytes:
        record = json.loads(f"{{{rest[1:]}}}")  # it begins with the comma behind `op`
        record["before"] = None if before is None else self._row_of(before)
        record["after"] = None if after is None else self._row_of(after)
        record["source"], record["op"] = json.loads(source), op
        return self.encoded("value", record)

    def _row_of(self, values: Sequence[str]) -> Row:
        return {name: self._fitted(place, values[place]) for place, name in enumerate(self._names)}

    def _fitted(self, place: int, fragment: Json) -> Json:
        value = json.loads(fragment) if isinstance(fragment, str) else fragment
        if value is None:
            return None
        try:
            return self._fits[place](value)
        except (TypeError, ValueError) as error:
            column = self.columns[place]
            raise SourceRefused(
                f"{self.topic}: the column {column.name!r} has {_short(value)}, which its type "
                f"cannot hold ({error})",
                hint=_hint(value),
            ) from None


def field_name(name: str) -> str:
    """A name as Avro allows it: Debezium's rule, what is not allowed becomes an underscore."""
    legal = _ILLEGAL.sub("_", name)
    return f"_{legal}" if not legal or legal[0].isdigit() else legal


def _fit(connect: Row, has_nulls: bool) -> Fit:
    """From a value as JSON has it to what the format's writer takes for this type, or an error."""
    kind = connect["type"]
    if kind == "array":
        item = _fit(connect["items"], has_nulls)
        some = _item if has_nulls else _no_null
        return lambda value: [some(item, each) for each in _is(value, list)]
    if kind == "struct":
        inner = {field["field"]: _fit(field, has_nulls) for field in connect["fields"]}
        return lambda value: {
            name: None if value[name] is None else fit(value[name]) for name, fit in inner.items()
        }
    return _FITS[PRIMITIVE[kind]]


def _item(fit: Fit, value: Json) -> Json:
    return None if value is None else fit(value)


def _no_null(fit: Fit, value: Json) -> Json:
    if value is None:
        raise ValueError("its lists have no null")
    return fit(value)


def _is(value: Json, kind: type) -> Json:
    if type(value) is not kind:
        raise TypeError(f"it is no {kind.__name__}")
    return value


def _integer(bits: int) -> Fit:
    def fit(value: Json) -> int:
        if not -(1 << bits) <= _is(value, int) < 1 << bits:
            raise ValueError(f"it has more than {bits} bits")
        return int(value)

    return fit


def _bytes(value: Json) -> bytes:
    if value == UNAVAILABLE_TEXT:
        return UNAVAILABLE_TEXT.encode()  # as Debezium does it
    return b64decode(_is(value, str), validate=True)


def _text(value: Json) -> str:
    if not _is(value, str).isascii():
        value.encode()  # half a surrogate pair is no text
    return str(value)


def _floating(value: Json) -> float:
    if type(value) is bool:
        raise TypeError("it is no number")
    return float(value)  # NaN and the infinities come as text


_FITS: dict[str, Fit] = {
    **{kind: _integer(bits) for kind, bits in _BITS.items()},
    **dict.fromkeys(("float", "double"), _floating),
    "boolean": lambda value: _is(value, bool),
    "string": _text,
    "bytes": _bytes,
}


def _hint(value: Json) -> str:
    if value == UNAVAILABLE_TEXT:
        return (
            "the database left the value out; let it send whole rows (PostgreSQL: ALTER TABLE … REPLICA "
            "IDENTITY FULL; MySQL, MariaDB: SET GLOBAL binlog_row_image = 'FULL')"
        )
    return (
        'correct the row or the column\'s type, or capture with format = "json" under another name'
    )


def _short(value: Json) -> str:
    shown = repr(value)
    return shown if len(shown) < 60 else f"{shown[:57]}…"
