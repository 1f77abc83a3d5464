"""Bytes as people read them: JSON, Avro in Confluent's framing, text, hexadecimal. Nothing is an error.

| kind      | bytes                                                  | `value`                  |
|-----------|--------------------------------------------------------|--------------------------|
| `null`    | none: a tombstone, a record without a key              | None                     |
| `json`    | an object, array, string, number, true, false, null    | the parsed value         |
| `avro`    | 0, a schema's number in four bytes, the record         | the record               |
| `text`    | UTF-8                                                  | the text                 |
| `hex`     | everything else                                        | the digits               |

A number or word alone (`17`, `true`) is JSON and text at once; it is shown as text, with its parsed value.
Avro's schemas lie in topics NAME.avro-schemas (see `capture.avro`); the one for the topic's own prefix is
looked at first, and again for a number that it did not have, but not more often than every few seconds.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import threading
import time
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from headwater.client import ranges as reading
from headwater.client.errors import told
from headwater.client.log import TIMEOUT_S, Log
from headwater.errors import HeadwaterError

SUFFIX = ".avro-schemas"
_AGAIN_S = 5.0
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shown:
    """`text`: on one line; `value`: as JSON has it; `note`: why it is not shown better."""

    kind: str
    text: str
    value: Any
    note: str | None = None

    def pretty(self) -> str:
        """Over several lines, where it has an inner structure."""
        if self.kind in ("json", "avro"):
            return json.dumps(self.value, indent=2, ensure_ascii=False)
        return self.text


_NULL = Shown("null", "null", None)


class Decoder:
    """Remembers schemas. One for as long as its log; for several threads. `log` None: no schemas."""

    def __init__(self, log: Log | None = None) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._schemas: dict[int, Any] = {}
        self._looked = -_AGAIN_S

    def decode(self, data: bytes | None, topic: str = "") -> Shown:
        if data is None:
            return _NULL
        if data[:1] == b"\0" and len(data) >= 5:
            return self._avro(data, topic)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return Shown("hex", data.hex(), data.hex())
        return _text(text)

    def _avro(self, data: bytes, topic: str) -> Shown:
        number = int.from_bytes(data[1:5], "big")
        try:
            import fastavro
        except ImportError:
            note = "looks like Avro; pip install 'headwater[avro]' shows it"
            return Shown("hex", data.hex(), data.hex(), note)
        schema = self._schema(number, topic)
        if schema is None:
            return Shown("hex", data.hex(), data.hex(), f"no Avro schema {number} in the log")
        try:
            record = fastavro.schemaless_reader(io.BytesIO(data[5:]), schema)
        except Exception as error:  # whatever the bytes make the library raise, they are shown
            note = f"not of its Avro schema {number}: {type(error).__name__}"
            return Shown("hex", data.hex(), data.hex(), note)
        value = _plain(record)
        return Shown("avro", json.dumps(value, ensure_ascii=False), value)

    def _schema(self, number: int, topic: str) -> Any:
        with self._lock:
            if number not in self._schemas and self._log is not None:
                try:
                    for name in self._candidates(self._log, topic):
                        self._load(self._log, name)
                        if number in self._schemas:
                            break
                except HeadwaterError as error:  # then its bytes are shown
                    _LOGGER.debug("no Avro schemas: %s", error)
            return self._schemas.get(number)

    def _candidates(self, log: Log, topic: str) -> list[str]:
        """The topics of schemas, the likeliest first; none if they were looked at just now."""
        now = time.monotonic()
        if now - self._looked < _AGAIN_S:
            return []
        self._looked = now
        with told("listing topics", log.bootstrap):
            names = log.admin.list_topics(timeout=TIMEOUT_S).topics
        found = [name for name in names if name.endswith(SUFFIX)]
        return sorted(found, key=lambda name: not topic.startswith(name.removesuffix(SUFFIX)))

    def _load(self, log: Log, name: str) -> None:
        for records in reading.read(log, name, log.ranges(name)):
            for record in records:
                if record.value is not None:
                    self._learn(record.value)

    def _learn(self, value: bytes) -> None:
        import fastavro

        try:
            said = json.loads(value)
            self._schemas[said["id"]] = fastavro.parse_schema(json.loads(said["schema"]))
        except Exception as error:  # a topic of that name may hold anything
            _LOGGER.debug("no Avro schema: %s", error)


def _text(text: str) -> Shown:
    if text[:1] in ("{", "[", '"'):
        try:
            return Shown("json", " ".join(text.split("\n")), json.loads(text))
        except (ValueError, RecursionError):
            return Shown("text", text, text)
    try:
        return Shown("text", text, json.loads(text))
    except (ValueError, RecursionError):
        return Shown("text", text, text)


def _plain(value: Any) -> Any:
    """What fastavro reads, as JSON has it."""
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date):
        return value.isoformat()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
