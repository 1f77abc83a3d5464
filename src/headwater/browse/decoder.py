"""Bytes as people read them: JSON, what a registry has the schema of, text, hexadecimal. Nothing is an error.

| kind      | bytes                                                  | `value`                  |
|-----------|--------------------------------------------------------|--------------------------|
| `null`    | none: a tombstone, a record without a key              | None                     |
| `json`    | an object, array, string, number, true, false, null    | the parsed value         |
| `avro`    | 0, a schema's id in four bytes, the record             | the record               |
| `protobuf`, `json-schema`   the same, of these types              | the message, the value   |
| `text`    | UTF-8                                                  | the text                 |
| `hex`     | everything else                                        | the digits               |

JSON of very many values (`wire.json_size`) is shown as text: nobody makes them, and it has no fields.
A number or word alone (`17`, `true`) is JSON and text at once; it is shown as text, with its parsed value.
Schemas are those of the registry (`schemas.lookup`). A capture without one has put Avro's into the topic
NAME.avro-schemas (see `capture.avro`): the one for the topic's own prefix is
looked at first, and again for a number that it did not have, but not more often than every few seconds.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.client import ranges as reading
from headwater.client.errors import BrokerUnreachable, told
from headwater.client.log import TIMEOUT_S, Log
from headwater.errors import HeadwaterError
from headwater.json_size import many
from headwater.schemas.errors import RegistryError
from headwater.schemas.values.errors import NotOfItsSchema

if TYPE_CHECKING:
    from headwater.schemas.values.codecs import Codec, Codecs

SUFFIX = ".avro-schemas"
BY_SCHEMA = ("avro", "protobuf", "json-schema")
_AGAIN_S = 5.0
PUT_ASIDE_MAX, PUT_ASIDE_BYTES_MAX = 5_000, 256 * 1024
"""Schemas that a capture without a registry has put aside, and the length of one."""
_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Shown:
    """`text`: on one line; `value`: as JSON has it; `note`: why it is not shown better."""

    kind: str
    text: str
    value: Any
    note: str | None = None

    @property
    def is_by_schema(self) -> bool:
        """Whether its bytes are no text, and a schema told what they say."""
        return self.kind in BY_SCHEMA

    def pretty(self) -> str:
        """Over several lines, where it has an inner structure."""
        if self.kind == "json" or self.is_by_schema:
            return json.dumps(self.value, indent=2, ensure_ascii=False)
        return self.text


_NULL = Shown("null", "null", None)


class Decoder:
    """Remembers schemas. One for as long as its log; for several threads. `log` None: no schemas.

    `insists`: raises where a registry gives no answer, for who would pass over what he cannot read.
    """

    def __init__(self, log: Log | None = None, *, insists: bool = False) -> None:
        self._log, self._insists = log, insists
        self._lock = threading.Lock()
        self._codecs: Codecs | None = None
        self._schemas: dict[int, Codec] = {}
        self._looked = -_AGAIN_S

    def decode(self, data: bytes | None, topic: str = "") -> Shown:
        if data is None:
            return _NULL
        if data[:1] == b"\0" and len(data) >= 5:
            return self._by_schema(data, topic)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return Shown("hex", data.hex(), data.hex())
        return _text(text, many(data))

    def known(self) -> Decoder:
        """The same by the schemas that were asked for before, and no others: it waits for nobody."""
        return _Known(self)

    def known_codec(self, number: int) -> Codec | None:
        codecs = self._codecs
        found = None if codecs is None else codecs.known(number)
        return found or self._schemas.get(number)

    def _by_schema(self, data: bytes, topic: str) -> Shown:
        number = int.from_bytes(data[1:5], "big")
        try:
            codec = self._codec(number, topic)
            if codec is None:
                return _hex(data, f"no schema {number} in the log")
            value = codec.decode(data[5:])
        except ModuleNotFoundError as error:
            note = f"looks like Avro; pip install 'headwater[avro]' shows it ({error.name})"
            return _hex(data, note)
        except NotOfItsSchema as error:
            return _hex(data, f"not of its schema {number}: {error.sentence}")
        except HeadwaterError as error:
            if self._insists and _may_pass(error):
                raise
            return _hex(data, error.sentence)
        if codec.kind == "json-schema":  # as it was sent: no number loses a digit
            return Shown(codec.kind, " ".join(data[5:].decode().split("\n")), value)
        return Shown(codec.kind, json.dumps(value, ensure_ascii=False), value)

    def _codec(self, number: int, topic: str) -> Codec | None:
        """By the registry; or by what a capture without one has put aside."""
        from headwater.schemas.values.errors import SchemaNotFound

        if self._log is not None:
            try:
                return self._registry(self._log).of(number)
            except SchemaNotFound:
                pass
        return self._put_aside(number, topic)

    def _registry(self, log: Log) -> Codecs:
        with self._lock:
            if self._codecs is None:
                from headwater.schemas.lookup import lookup_beside
                from headwater.schemas.values.codecs import Codecs

                self._codecs = Codecs(lookup_beside(log))
            return self._codecs

    def _put_aside(self, number: int, topic: str) -> Codec | None:
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
        held, left = log.ranges(name), PUT_ASIDE_MAX
        for records in reading.read(
            log, name, {p: (max(a, b - left), b) for p, (a, b) in held.items()}
        ):
            for record in records:
                if record.value is not None:
                    self._learn(record.value)
            left -= len(records)
            if left <= 0:
                return

    def _learn(self, value: bytes) -> None:
        """Whoever may make a topic of such a name may have left any number there."""
        from headwater.schemas.values.avro import AvroCodec

        if len(value) > PUT_ASIDE_BYTES_MAX or len(self._schemas) >= PUT_ASIDE_MAX:
            return
        try:
            said = json.loads(value)
            self._schemas[said["id"]] = AvroCodec(said["schema"])
        except Exception as error:  # a topic of that name may hold anything
            _LOGGER.debug("no Avro schema: %s", error)


class _Known(Decoder):
    _insists = False

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder

    def _codec(self, number: int, topic: str) -> Codec | None:
        return self._decoder.known_codec(number)


def _text(text: str, too_many: str | None) -> Shown:
    if too_many is not None:
        return Shown("text", text, text, f"not looked into: {too_many}")
    if text.lstrip(" \t\n\r")[:1] in ("{", "[", '"'):
        try:
            return Shown("json", " ".join(text.split("\n")), json.loads(text))
        except (ValueError, RecursionError):
            return Shown("text", text, text)
    try:
        return Shown("text", text, json.loads(text))
    except (ValueError, RecursionError):
        return Shown("text", text, text)


def _hex(data: bytes, note: str) -> Shown:
    said = data.hex()
    return Shown("hex", said, said, note)


def _may_pass(error: HeadwaterError) -> bool:
    """Whether the registry may know the schema, and only cannot say so now."""
    is_ill = isinstance(error, RegistryError) and error.status >= 500
    return is_ill or isinstance(error, BrokerUnreachable)
