"""Protobuf behind five bytes and the place of its message in the file; in JSON by the fields' own names.

| after the id       | of a message that is …                                        |
|--------------------|---------------------------------------------------------------|
| 0                  | the first of its file                                         |
| n, i₁ … iₙ         | the i₁th of its file, in it the i₂th, …; all zigzag varints   |
"""

from __future__ import annotations

import base64

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, EncodeError, Message
from google.protobuf.message_factory import GetMessageClass

from headwater.schemas.model import Parsed
from headwater.schemas.protobuf import document
from headwater.schemas.values import exact
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.fit.protobuf import fit
from headwater.schemas.values.header import Json

INDEXES_MAX = 32
_SHOWN = 300
_WELL_KNOWN = "google.protobuf."
_MISFITS = (
    json_format.ParseError,
    EncodeError,
    TypeError,
    AttributeError,
    ValueError,
    RecursionError,
)
_TIMESTAMP = f"{_WELL_KNOWN}Timestamp"


class ProtobufCodec:
    kind = "protobuf"

    def __init__(self, parsed: Parsed, *, in_micros: bool = False) -> None:
        """`in_micros`: a Timestamp is cut off at the microsecond, as Spark's `from_protobuf` does it."""
        assert isinstance(parsed, document.ProtobufSchema)
        self._in_micros = in_micros
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
        made = GetMessageClass(self.message(indexes))()
        try:
            made.ParseFromString(body[start:])
        except DecodeError as error:
            raise NotOfItsSchema(f"no Protobuf of its schema: {error}") from None
        return _plain(made, self._in_micros)

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


def _plain(message: Message, in_micros: bool) -> Json:
    name = message.DESCRIPTOR.full_name
    if name.startswith(_WELL_KNOWN):
        if in_micros and name == _TIMESTAMP:
            nanos = getattr(message, "nanos")  # noqa: B009  the class is made at run time
            setattr(message, "nanos", nanos - nanos % 1000)  # noqa: B010
        try:
            return json_format.MessageToDict(message, preserving_proto_field_name=True)
        except (TypeError, ValueError, OverflowError, json_format.Error) as error:
            raise NotOfItsSchema(f"{name} holds what cannot be one: {error}") from None
    return {each.name: _field(message, each, in_micros) for each in message.DESCRIPTOR.fields}


def _field(message: Message, field: FieldDescriptor, in_micros: bool) -> Json:
    if field.is_repeated:
        found = getattr(message, field.name)
        entry = field.message_type
        if entry is not None and entry.GetOptions().map_entry:
            item = entry.fields_by_name["value"]
            return {_key(key): _one(found[key], item, in_micros) for key in found}
        return [_one(each, field, in_micros) for each in found]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _one(getattr(message, field.name), field, in_micros)


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _one(value: Json, field: FieldDescriptor, in_micros: bool) -> Json:
    if field.type == FieldDescriptor.TYPE_BYTES:
        return base64.b64encode(value).decode()
    if field.enum_type is not None:
        found = field.enum_type.values_by_number.get(value)
        return value if found is None else found.name
    return _plain(value, in_micros) if isinstance(value, Message) else value
