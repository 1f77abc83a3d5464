"""Debezium's envelope as Avro; `encoders` makes one for each shape of a table.

| bytes | of a key or value                                      |
|-------|--------------------------------------------------------|
| 0     | 0                                                      |
| 1–4   | the schema's number, big-endian                        |
| 5–    | the record, in Avro's binary encoding                  |

This is the framing of Confluent's registry. There is no registry here: a schema's number is the first 31
bits of the SHA-256 of its JSON text, and the text lies in the topic NAME.avro-schemas:

    key    {"id": 1234567}
    value  {"id": 1234567, "subject": "shop.orders-value", "schema": "{\"type\": \"record\", …}"}

Invariants:
- A schema must be in the log no later than the first record that has its number; both are written in one
  Kafka transaction.
- A value that its column's type cannot hold must be an error, never another value.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from typing import Any

from headwater.capture.change import Record
from headwater.capture.envelope import Column, TableEncoder, dumps, envelope_schema, key_schema
from headwater.capture.errors import Misconfigured, SourceRefused

UNAVAILABLE = "__debezium_unavailable_value"
_ILLEGAL = re.compile(r"[^A-Za-z0-9_]")
_PRIMITIVE = {
    **dict.fromkeys(("int8", "int16", "int32"), "int"),
    "int64": "long",
    **{name: name for name in ("float", "double", "boolean", "string", "bytes")},
}
_BITS = {"int": 31, "long": 63}

Fit = Callable[[Any], Any]


class AvroEncoder(TableEncoder):
    """One table at one moment of its schema."""

    def __init__(
        self,
        topic: str,
        columns: Sequence[Column],
        key: Sequence[int],
        source: dict[str, Any],
        *,
        tombstones: bool = True,
    ) -> None:
        fastavro = _library()
        super().__init__(topic, columns, key, tombstones=tombstones)
        self._write = fastavro.schemaless_writer
        texts = [
            dumps(avro_schema(envelope_schema(topic, columns, source))),
            dumps(avro_schema(key_schema(topic, columns, key))),
        ]
        self._texts = dict(zip(("value", "key"), texts, strict=True))
        self._schema, self._key_schema = (fastavro.parse_schema(json.loads(t)) for t in texts)
        self._prefix, self._key_prefix = (b"\0" + number(t).to_bytes(4, "big") for t in texts)
        self._names = [field_name(column.name) for column in columns]
        if len(set(self._names)) < len(columns):
            raise Misconfigured(
                f"two columns of {topic} have the same name in Avro, where only letters, digits and _ "
                "are allowed",
                hint='rename one, or capture with format = "json"',
            )
        self._fits = [_fit(dict(column.connect)) for column in columns]

    def schema_records(self, topic: str) -> list[Record]:
        """What readers need to know first."""
        kinds = ("key", "value") if self.key_places else ("value",)
        return [
            (
                topic,
                dumps({"id": (at := number(text))}).encode(),
                dumps({"id": at, "subject": f"{self.topic}-{kind}", "schema": text}).encode(),
            )
            for kind in kinds
            for text in (self._texts[kind],)
        ]

    def key(self, values: Sequence[str]) -> bytes | None:
        if not self.key_places:
            return None
        found = {
            self._names[place]: self._fitted(place, values[place]) for place in self.key_places
        }
        return self._framed(self._key_prefix, self._key_schema, found)

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
        return self._framed(self._prefix, self._schema, record)

    def _framed(self, prefix: bytes, schema: Any, record: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        out.write(prefix)
        self._write(out, schema, record)
        return out.getvalue()

    def _row_of(self, values: Sequence[str]) -> dict[str, Any]:
        return {name: self._fitted(place, values[place]) for place, name in enumerate(self._names)}

    def _fitted(self, place: int, fragment: Any) -> Any:
        value = json.loads(fragment) if isinstance(fragment, str) else fragment
        if value is None:
            return None
        try:
            return self._fits[place](value)
        except (TypeError, ValueError) as error:
            column = self.columns[place]
            raise SourceRefused(
                f"{self.topic}: the column {column.name!r} has {_short(value)}, which its Avro type "
                f"cannot hold ({error})",
                hint=_hint(value),
            ) from None


def number(text: str) -> int:
    """The number of a schema, from its text alone: every run gives it the same."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") & 0x7FFFFFFF


def field_name(name: str) -> str:
    """A name as Avro allows it: Debezium's rule, what is not allowed becomes an underscore."""
    legal = _ILLEGAL.sub("_", name)
    return f"_{legal}" if not legal or legal[0].isdigit() else legal


def avro_schema(connect: dict[str, Any], known: set[str] | None = None) -> Any:
    """A schema of Kafka Connect as Avro's; a record that was described before is only named."""
    known = set() if known is None else known
    kind = connect["type"]
    if kind == "struct":
        full = ".".join(field_name(part) for part in str(connect["name"]).split("."))
        if full in known:
            return full
        known.add(full)
        space, _, name = full.rpartition(".")
        made: Any = {"type": "record", "name": name, "namespace": space}
        made["fields"] = [_avro_field(field, known) for field in connect["fields"]]
        return made
    if kind == "array":
        return {"type": "array", "items": _maybe(connect["items"], known)}
    plain = _PRIMITIVE[kind]
    if "name" not in connect:
        return plain
    made = {"type": plain, "connect.name": connect["name"]}
    if "parameters" in connect:
        made["connect.parameters"] = connect["parameters"]
    return made


def _avro_field(field: dict[str, Any], known: set[str]) -> dict[str, Any]:
    made = {"name": field_name(field["field"]), "type": _maybe(field, known)}
    return {**made, "default": None} if field.get("optional") else made


def _maybe(connect: dict[str, Any], known: set[str]) -> Any:
    kind = avro_schema(connect, known)
    return ["null", kind] if connect.get("optional") else kind


def _fit(connect: dict[str, Any]) -> Fit:
    """From a value as JSON has it to what Avro's writer takes for this type, or an error."""
    kind = connect["type"]
    if kind == "array":
        item = _fit(connect["items"])
        return lambda value: [None if v is None else item(v) for v in _is(value, list)]
    if kind == "struct":
        inner = {field["field"]: _fit(field) for field in connect["fields"]}
        return lambda value: {
            name: None if value[name] is None else fit(value[name]) for name, fit in inner.items()
        }
    return _FITS[_PRIMITIVE[kind]]


def _is(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"it is no {kind.__name__}")
    return value


def _integer(bits: int) -> Fit:
    def fit(value: Any) -> int:
        if not -(1 << bits) <= _is(value, int) < 1 << bits:
            raise ValueError(f"it has more than {bits} bits")
        return int(value)

    return fit


def _bytes(value: Any) -> bytes:
    if value == UNAVAILABLE:
        return UNAVAILABLE.encode()  # as Debezium does it
    return b64decode(_is(value, str), validate=True)


def _floating(value: Any) -> float:
    if type(value) is bool:
        raise TypeError("it is no number")
    return float(value)  # NaN and the infinities come as text


_FITS: dict[str, Fit] = {
    **{kind: _integer(bits) for kind, bits in _BITS.items()},
    **dict.fromkeys(("float", "double"), _floating),
    "boolean": lambda value: _is(value, bool),
    "string": lambda value: _is(value, str),
    "bytes": _bytes,
}


def _hint(value: Any) -> str:
    if value == UNAVAILABLE:
        return (
            "the database left the value out; let it send whole rows (PostgreSQL: ALTER TABLE … REPLICA "
            "IDENTITY FULL; MySQL, MariaDB: SET GLOBAL binlog_row_image = 'FULL')"
        )
    return (
        'correct the row or the column\'s type, or capture with format = "json" under another name'
    )


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) < 60 else f"{shown[:57]}…"


def _library() -> Any:
    try:
        import fastavro
    except ImportError:
        raise Misconfigured(
            'format = "avro" needs the package fastavro', hint="pip install 'headwater[avro]'"
        ) from None
    return fastavro
