"""Protobuf behind five bytes and the place of its message in the file; in JSON by the fields' own names.

| after the id       | of a message that is …                                        |
|--------------------|---------------------------------------------------------------|
| 0                  | the first of its file                                         |
| n, i₁ … iₙ         | the i₁th of its file, in it the i₂th, …; all zigzag varints   |
"""

from __future__ import annotations

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from headwater.schemas.model import Parsed
from headwater.schemas.protobuf import document
from headwater.schemas.values import exact, messages
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.fit.protobuf import fit
from headwater.schemas.values.header import Json, values_max

INDEXES_MAX = 32
_SHOWN = 300
_MISFITS = (
    json_format.ParseError,
    EncodeError,
    TypeError,
    AttributeError,
    LookupError,
    ValueError,
    RecursionError,
)


class ProtobufCodec:
    kind = "protobuf"

    def __init__(
        self, parsed: Parsed, *, reader: Descriptor | None = None, in_micros: bool = False
    ) -> None:
        """`reader`: the message as which values are to be read; None: as they were written. `in_micros`: a
        Timestamp is cut off at the microsecond, as Spark's `from_protobuf` does it."""
        assert isinstance(parsed, document.ProtobufSchema)
        self.reader, self._in_micros = reader, in_micros
        pool = DescriptorPool()
        for each in parsed.files.file:
            pool.Add(each)
        self._file = pool.FindFileByName(parsed.file.name)
        self._order = [each.name for each in parsed.file.message_type]
        self._nested = {
            each.name: [inner.name for inner in each.nested_type]
            for each in parsed.file.message_type
        }
        self._found: dict[tuple[int, ...], Descriptor] = {}

    def message(self, indexes: tuple[int, ...] = (0,)) -> Descriptor:
        found = self._found.get(indexes)
        if found is None:
            found = self._found[indexes] = self._find(indexes)
        return found

    def _find(self, indexes: tuple[int, ...]) -> Descriptor:
        try:
            found: Descriptor = self._file.message_types_by_name[self._order[indexes[0]]]
            for each in indexes[1:]:
                found = found.nested_types[each]
        except (IndexError, KeyError):
            raise NotOfItsSchema(f"its schema has no message {list(indexes)}") from None
        if found.GetOptions().map_entry:
            raise NotOfItsSchema(f"the message {list(indexes)} of its schema is an entry of a map")
        return found

    def decode(self, body: bytes) -> Json:
        indexes, start = indexes_of(body)
        message = self.message(indexes)
        if not self.is_read(message):
            raise NotOfItsSchema(f"it is a {message.full_name}, and no {_full_name(self.reader)}")
        made = GetMessageClass(message)()
        try:
            made.ParseFromString(body[start:])
        except DecodeError as error:
            raise NotOfItsSchema(f"no Protobuf of its schema: {error}") from None
        reading = messages.Reading(values_max(len(body)), in_micros=self._in_micros)
        return reading.plain(made, self.reader)

    def is_read(self, message: Descriptor) -> bool:
        """Whether it is the one as which values are to be read, wherever it stands in its file."""
        return self.reader is None or _own_name(message) == _own_name(self.reader)

    def encode(self, value: Json) -> bytes:
        """Raises NotOfItsSchema."""
        made = GetMessageClass(self.message())()
        try:
            json_format.ParseDict(fit(value, self.message()), made)
            return b"\0" + bytes(made.SerializeToString())
        except _MISFITS as error:
            raise NotOfItsSchema(
                f"its Protobuf schema does not take it: {error}"[:_SHOWN]
            ) from None

    def encode_text(self, text: str) -> bytes:
        return self.encode(exact.loads(text))


def _own_name(message: Descriptor) -> str:
    """Without the package, as the rules of compatibility compare it."""
    return message.full_name.removeprefix(f"{message.file.package}.")


def _full_name(message: Descriptor | None) -> str:
    return "" if message is None else message.full_name


def indexes_of(body: bytes) -> tuple[tuple[int, ...], int]:
    """Which message it is, and where its bytes begin."""
    count, at = _varint(body, 0)
    if count == 0:
        return (0,), at
    if not 0 < count <= INDEXES_MAX:
        raise NotOfItsSchema("it does not say which message of its schema it is")
    found = []
    for _ in range(count):
        index, at = _varint(body, at)
        if index < 0:
            raise NotOfItsSchema("it does not say which message of its schema it is")
        found.append(index)
    return tuple(found), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise NotOfItsSchema("it does not say which message of its schema it is")
