"""Debezium's envelope as JSON that a registry has the JSON Schema of: the rows of `envelope`, each behind the
five bytes with its schema's id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from headwater.capture.change import Record
from headwater.capture.envelope import (
    Column,
    Connect,
    TableEncoder,
    dumps,
    envelope_schema,
    key_schema,
)
from headwater.schemas.values.header import prefix

_TYPES: dict[str, dict[str, str]] = {
    **{name: {"type": "integer"} for name in ("int8", "int16", "int32", "int64")},
    **{name: {"type": "number"} for name in ("float", "double")},
    "boolean": {"type": "boolean"},
    "string": {"type": "string"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
}


class JsonSchemaEncoder(TableEncoder):
    """One table at one moment of its schema. `identify`: (key or value, a schema) → its id."""

    def __init__(
        self,
        topic: str,
        columns: Sequence[Column],
        key: Sequence[int],
        source: Connect,
        identify: Callable[[str, str], int],
        *,
        tombstones: bool = True,
    ) -> None:
        super().__init__(topic, columns, key, tombstones=tombstones)
        value = dumps(json_schema(envelope_schema(topic, columns, source)))
        self._prefix = prefix(identify("value", value))
        if key:
            own = dumps(json_schema(key_schema(topic, columns, key)))
            self._key_prefix = prefix(identify("key", own))

    def key_prefix(self) -> str:
        return self._key_prefix.hex()

    def key(self, values: Sequence[str]) -> bytes | None:
        found = super().key(values)
        return None if found is None else self._key_prefix + found

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
        return self._prefix + super()._value(before, after, source, op, rest)


def json_schema(connect: Connect) -> Connect:
    """A schema of Kafka Connect as JSON Schema (draft 7), closed: so that a column may be added to it."""
    made = _of(connect)
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": connect["name"], **made}


def _of(connect: Connect) -> Connect:
    kind = connect["type"]
    made: Connect
    if kind == "struct":
        fields = connect["fields"]
        made = {
            "type": "object",
            "properties": {each["field"]: _of(each) for each in fields},
            "additionalProperties": False,
        }
        # One with a default is always there, and need not be asked for: it may be added.
        sure = [each for each in fields if not each.get("optional") and "default" not in each]
        if sure:
            made["required"] = [each["field"] for each in sure]
    elif kind == "array":
        made = {"type": "array", "items": _of(connect["items"])}
    else:
        made = dict(_TYPES[kind])
    if "name" in connect and kind != "struct":
        made["connect.name"] = connect["name"]
    if "default" in connect:
        made["default"] = connect["default"]
    if not connect.get("optional"):
        return made
    return {"oneOf": [{"type": "null"}, made]}
