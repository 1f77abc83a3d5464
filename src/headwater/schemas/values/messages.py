"""A message of Protobuf as JSON has it: by the fields that it was written with or, by their numbers, as who
reads it calls them.

Protobuf knows fields and values of enums by numbers: a field that was renamed is the same one, and one of the
same name with another number is not. Numbers, texts and truths stay what the writer has meant, where the
reader's type is another of the same wire form; one is a list of one, and of a list the last counts.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from functools import lru_cache

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.exact import shown
from headwater.schemas.values.header import Json, letters_of

_F = FieldDescriptor
_WELL_KNOWN = "google.protobuf."
_TIMESTAMP = f"{_WELL_KNOWN}Timestamp"
_LONGS = (f"{_WELL_KNOWN}Int64Value", f"{_WELL_KNOWN}UInt64Value")
"""Numbers here, as fields of these types are; in Protobuf's JSON they are texts."""
_NULLS = (f"{_WELL_KNOWN}NullValue", f"{_WELL_KNOWN}Value")
_NONE_SUCH = (
    TypeError,
    ValueError,
    OverflowError,
    AttributeError,
    LookupError,
    RecursionError,
    json_format.Error,
)
_INTEGERS = (_F.CPPTYPE_INT32, _F.CPPTYPE_INT64, _F.CPPTYPE_UINT32, _F.CPPTYPE_UINT64)


class Reading:
    """Of one value. `in_micros`: a Timestamp is cut off at the microsecond; `most`: so many letters it
    may have, as a message of thousands of fields takes two bytes where none is set."""

    def __init__(self, most: float, *, in_micros: bool) -> None:
        self._left, self._in_micros = most, in_micros

    def plain(self, message: Message, read_as: Descriptor | None = None) -> Json:
        """`read_as`: the message that whoever reads it knows. Raises NotOfItsSchema."""
        name = message.DESCRIPTOR.full_name
        if name.startswith(_WELL_KNOWN):
            return _well_known(message, name, self._in_micros)
        fields = pairs(message.DESCRIPTOR, read_as)
        self._left -= _letters_of(message.DESCRIPTOR, read_as)
        if self._left < 0:
            raise NotOfItsSchema(
                "a few bytes of it are very many fields: its messages are too wide"
            )
        return {
            said: self._field(message, own, known)
            for said, own, known in fields
            if not (_null_sets(own) and own.has_presence and not message.HasField(own.name))
        }

    def _field(
        self, message: Message, field: FieldDescriptor, known: FieldDescriptor | None
    ) -> Json:
        if field.is_repeated:
            found = getattr(message, field.name)
            entry = field.message_type
            if entry is not None and entry.GetOptions().map_entry:
                item, read_as = entry.fields_by_name["value"], _item(known)
                return {_key(key): self._one(found[key], item, read_as) for key in found}
            if known is not None and not known.is_repeated:
                return self._last(found, field, known)
            return [self._one(each, field, known) for each in found]
        value = getattr(message, field.name)
        is_there = message.HasField(field.name) if field.has_presence else bool(value)
        if known is not None and known.is_repeated:
            return [self._one(value, field, known)] if is_there else []
        if field.has_presence and not is_there:
            return None
        return self._one(value, field, known)

    def _last(self, found: Sequence[Json], field: FieldDescriptor, known: FieldDescriptor) -> Json:
        """Of a list, for who reads one: the last, and of messages all that they say together."""
        if not found:
            return None if known.has_presence else _scalar(known.default_value, known, known)
        if field.message_type is None:
            return self._one(found[-1], field, known)
        whole = type(found[0])()
        for each in found:
            whole.MergeFrom(each)
        return self._one(whole, field, known)

    def _one(self, value: Json, field: FieldDescriptor, known: FieldDescriptor | None) -> Json:
        if isinstance(value, Message):
            return self.plain(value, None if known is None else known.message_type)
        return _scalar(value, field, known or field)


@lru_cache(maxsize=4096)
def _null_sets(field: FieldDescriptor) -> bool:
    """Of such a field null is a value, so where it is not set it is not shown."""
    kind = field.message_type or field.enum_type
    return kind is not None and kind.full_name in _NULLS


@lru_cache(maxsize=256)
def pairs(
    written: Descriptor, read_as: Descriptor | None
) -> tuple[tuple[str, FieldDescriptor, FieldDescriptor | None], ...]:
    """The writer's fields: what the reader calls each, and its field; without those whose names mean
    others to the reader."""
    if read_as is None:
        return tuple((each.name, each, None) for each in written.fields)
    known, names = read_as.fields_by_number, read_as.fields_by_name
    return tuple(
        (
            known[each.number].name if each.number in known else each.name,
            each,
            known.get(each.number),
        )
        for each in written.fields
        if each.number in known or each.name not in names
    )


@lru_cache(maxsize=256)
def _letters_of(written: Descriptor, read_as: Descriptor | None) -> int:
    return sum(letters_of(said) for said, _, _ in pairs(written, read_as))


def enum_names(written: EnumDescriptor, read_as: EnumDescriptor | None) -> dict[int, str]:
    """What each number is called; without those that only the writer names, and as another of the
    reader's."""
    own = {number: each.name for number, each in written.values_by_number.items()}
    if read_as is None:
        return own
    known = {number: each.name for number, each in read_as.values_by_number.items()}
    taken = set(read_as.values_by_name)
    return {number: name for number, name in own.items() if name not in taken} | known


def _well_known(message: Message, name: str, in_micros: bool) -> Json:
    """Its package may be anybody's: a message that is only called as one of Google's is none."""
    pool = message.DESCRIPTOR.file.pool
    try:
        if name in _LONGS:
            return int(json_format.MessageToDict(message, descriptor_pool=pool))
        if in_micros and name == _TIMESTAMP:
            nanos = getattr(message, "nanos")  # noqa: B009  the class is made at run time
            setattr(message, "nanos", nanos - nanos % 1000)  # noqa: B010
        return json_format.MessageToDict(
            message, preserving_proto_field_name=True, descriptor_pool=pool
        )
    except _NONE_SUCH as error:
        raise NotOfItsSchema(f"{name} holds what cannot be one: {error}"[:300]) from None


def _item(known: FieldDescriptor | None) -> FieldDescriptor | None:
    entry = None if known is None else known.message_type
    return None if entry is None else entry.fields_by_name.get("value")


def _key(key: object) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _scalar(value: Json, field: FieldDescriptor, reader: FieldDescriptor) -> Json:
    if reader.enum_type is not None:
        names = enum_names(field.enum_type or reader.enum_type, reader.enum_type)
        return names.get(value, value)
    if field.type in (_F.TYPE_STRING, _F.TYPE_BYTES):
        return _letters(value, field, reader)
    if reader.type == _F.TYPE_BOOL:
        return bool(value)
    if isinstance(value, float):
        return shown(value)
    is_number = reader.cpp_type in _INTEGERS and isinstance(value, bool)
    return int(value) if is_number else value


def _letters(value: str | bytes, field: FieldDescriptor, reader: FieldDescriptor) -> str:
    if reader.type == _F.TYPE_BYTES:
        data = value.encode() if isinstance(value, str) else value
        return base64.b64encode(data).decode()
    try:
        return value if isinstance(value, str) else value.decode()
    except UnicodeDecodeError:
        raise NotOfItsSchema(
            f"the field {field.name} is no text, which it is to be read as"
        ) from None
