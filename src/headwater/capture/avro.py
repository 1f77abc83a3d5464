"""Debezium's envelope as Avro; `encoders` makes one for each shape of a table.

| bytes | of a key or value                                      |
|-------|--------------------------------------------------------|
| 0     | 0                                                      |
| 1–4   | the schema's number, big-endian                        |
| 5–    | the record, in Avro's binary encoding                  |

This is the framing of Confluent's registry. With a registry, the number is its id there. Without one, it is
the first 31 bits of the SHA-256 of the schema's JSON text, and the text lies in the topic NAME.avro-schemas:

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
from collections.abc import Callable, Sequence
from typing import Any

from headwater.capture.binary_encoder import PRIMITIVE, BinaryEncoder, field_name
from headwater.capture.change import Record
from headwater.capture.envelope import Column, Connect, dumps, envelope_schema, key_schema
from headwater.capture.errors import Misconfigured
from headwater.schemas.values.header import prefix


class AvroEncoder(BinaryEncoder):
    """One table at one moment of its schema."""

    def __init__(
        self,
        topic: str,
        columns: Sequence[Column],
        key: Sequence[int],
        source: Connect,
        *,
        tombstones: bool = True,
        identify: Callable[[str, str], int] | None = None,
    ) -> None:
        """`identify`: (key or value, a schema) → its id in a registry."""
        fastavro = _library()
        super().__init__(topic, columns, key, tombstones=tombstones)
        self._write = fastavro.schemaless_writer
        texts = [
            dumps(avro_schema(envelope_schema(topic, columns, source))),
            dumps(avro_schema(key_schema(topic, columns, key))),
        ]
        self._texts = dict(zip(("value", "key"), texts, strict=True))
        self._schema, self._key_schema = (fastavro.parse_schema(json.loads(t)) for t in texts)
        ids = {part: self._id_of(part, text, identify) for part, text in self._texts.items()}
        self._prefix, self._key_prefix = (prefix(ids[part]) for part in ("value", "key"))

    def _id_of(self, part: str, text: str, identify: Callable[[str, str], int] | None) -> int:
        is_told = part == "value" or bool(self.key_places)
        return identify(part, text) if identify is not None and is_told else number(text)

    def key_prefix(self) -> str:
        return self._key_prefix.hex()

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

    def encoded(self, part: str, record: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        out.write(self._prefix if part == "value" else self._key_prefix)
        self._write(out, self._schema if part == "value" else self._key_schema, record)
        return out.getvalue()


def number(text: str) -> int:
    """The number of a schema, from its text alone: every run gives it the same."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") & 0x7FFFFFFF


def avro_schema(connect: Connect, known: set[str] | None = None) -> Any:
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
    plain = PRIMITIVE[kind]
    if "name" not in connect:
        return plain
    made = {"type": plain, "connect.name": connect["name"]}
    if "parameters" in connect:
        made["connect.parameters"] = connect["parameters"]
    return made


def _avro_field(field: Connect, known: set[str]) -> dict[str, Any]:
    made = {"name": field_name(field["field"]), "type": _maybe(field, known)}
    if field.get("optional"):
        return {**made, "default": None}
    return {**made, "default": field["default"]} if "default" in field else made


def _maybe(connect: Connect, known: set[str]) -> Any:
    kind = avro_schema(connect, known)
    return ["null", kind] if connect.get("optional") else kind


def _library() -> Any:
    try:
        import fastavro
    except ImportError:
        raise Misconfigured(
            'format = "avro" needs the package fastavro', hint="pip install 'headwater[avro]'"
        ) from None
    return fastavro
