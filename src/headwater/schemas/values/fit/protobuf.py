"""From what JSON has to what Protobuf's own parser of JSON takes exactly: field by field, or refused.

`ProtobufCodec.encode` calls it. That parser rounds numbers, drops letters that are no base64, takes the last
of two names of one field, and makes 0 of null: here each is refused with the field's name.
"""

from __future__ import annotations

import base64
import re
from decimal import Decimal
from functools import lru_cache

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from headwater.schemas.values.allowance import SEARCHED, Allowance
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.exact import base64_bytes, floating
from headwater.schemas.values.header import Json

_F = FieldDescriptor
_GOOGLE = "google.protobuf."
_INTEGER = re.compile(r"0|-?[1-9]\d{0,19}", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,400}(\.\d{1,400})?([eE][+-]?\d{1,4})?", re.ASCII)
_DURATION = re.compile(r"-?\d{1,12}(\.\d{1,9})?s", re.ASCII)
_BEYOND = Decimal(1 << 64)
_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
_INTEGERS = (_F.CPPTYPE_INT32, _F.CPPTYPE_INT64, _F.CPPTYPE_UINT32, _F.CPPTYPE_UINT64)
_FLOATS = (_F.CPPTYPE_FLOAT, _F.CPPTYPE_DOUBLE)
_REFUSED = (TypeError, ValueError, ArithmeticError)


def fit(value: Json, message: Descriptor) -> Json:
    """Raises NotOfItsSchema."""
    return _message(value, message, "", Allowance(value))


def _message(value: Json, message: Descriptor, where: str, allowance: Allowance) -> Json:
    allowance.take(len(message.fields) // SEARCHED)  # whoever writes it lists them
    if message.full_name.startswith(_GOOGLE):
        return _well_known(value, message, where, allowance)
    if not isinstance(value, dict):
        raise _misfit(value, message.full_name, where)
    known = _fields_of(message)
    made: dict[str, Json] = {}
    for name, each in value.items():
        place = f"{where}.{name}" if where else name
        field = known.get(name)
        if field is None:
            raise NotOfItsSchema(f"the schema has no field {place}")
        if field.name in made:
            raise NotOfItsSchema(f"the field {place} stands twice in one object")
        made[field.name] = _field(each, field, place, allowance)
    return made


@lru_cache(maxsize=256)
def _fields_of(message: Descriptor) -> dict[str, FieldDescriptor]:
    """By both names that JSON may have for them."""
    known = {each.json_name: each for each in message.fields}
    return known | {each.name: each for each in message.fields if each.name not in known}


def _field(value: Json, field: FieldDescriptor, where: str, allowance: Allowance) -> Json:
    if not field.is_repeated:
        if value is None and field.has_presence:
            return None  # as if it were not there
        return _one(value, field, where, allowance)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        if not isinstance(value, dict):
            raise _misfit(value, "map", where)
        key, item = entry.fields_by_name["key"], entry.fields_by_name["value"]
        return {
            _key(k, key, where): _one(v, item, f"{where}.{k}", allowance) for k, v in value.items()
        }
    if not isinstance(value, list):
        raise _misfit(value, "list", where)
    return [_one(each, field, f"{where}[{n}]", allowance) for n, each in enumerate(value)]


def _key(text: str, field: FieldDescriptor, where: str) -> str:
    if field.cpp_type in _INTEGERS and not _INTEGER.fullmatch(text):
        raise _misfit(text, "key of the map", where)
    return text


def _one(value: Json, field: FieldDescriptor, where: str, allowance: Allowance) -> Json:
    if field.message_type is not None:
        return _message(value, field.message_type, where, allowance)
    try:
        return _scalar(value, field)
    except _REFUSED:
        name = "enum" if field.enum_type is not None else _NAMES[field.type]
        raise _misfit(value, name, where) from None


def _scalar(value: Json, field: FieldDescriptor) -> Json:
    if field.cpp_type in _INTEGERS:
        return _integer(value)
    if field.cpp_type in _FLOATS:
        return _floating(value, is_single=field.cpp_type == _F.CPPTYPE_FLOAT)
    if field.cpp_type == _F.CPPTYPE_BOOL and isinstance(value, bool):
        return value
    if field.type == _F.TYPE_STRING and isinstance(value, str):
        value.encode()
        return value
    if field.type == _F.TYPE_BYTES and isinstance(value, str):
        return base64.b64encode(_bytes(value)).decode()
    if field.enum_type is not None:
        if isinstance(value, str) and value in field.enum_type.values_by_name:
            return value
        if type(value) is int and -(1 << 31) <= value < 1 << 31:
            return value
        if value is None and field.enum_type.full_name == f"{_GOOGLE}NullValue":
            return None
    raise TypeError


def _integer(value: Json) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value)
    if type(value) is int:
        return value
    number = Decimal(value) if isinstance(value, float | Decimal) else Decimal("NaN")
    if abs(number) < _BEYOND and number == int(number):
        return int(number)
    raise TypeError


def _floating(value: Json, *, is_single: bool) -> Json:
    if isinstance(value, str):
        if value in _NO_NUMBERS:
            return value
        if not _NUMBER.fullmatch(value):
            raise ValueError
        value = Decimal(value)
    if type(value) not in (int, float, Decimal):
        raise TypeError
    return floating(value, is_single=is_single)


def _bytes(text: str) -> bytes:
    """Base64 in either alphabet, with its end or without."""
    plain = text.rstrip("=").translate(str.maketrans("-_", "+/"))
    padded = plain + "=" * (-len(plain) % 4)
    if text.endswith("=") and len(padded) != len(text):
        raise ValueError
    return base64_bytes(padded)


def _well_known(value: Json, message: Descriptor, where: str, allowance: Allowance) -> Json:
    name = message.full_name.removeprefix(_GOOGLE)
    if name.endswith("Value") and name not in ("Value", "ListValue"):
        return _one(value, message.fields_by_name["value"], where, allowance)
    if name == "Any":
        raise NotOfItsSchema(
            f"the field {where or 'value'} is a google.protobuf.Any, which is not written from JSON"
        )
    is_good = {
        "Struct": isinstance(value, dict),
        "ListValue": isinstance(value, list),
        "Value": True,
        "Empty": value == {},
        "Duration": isinstance(value, str) and _DURATION.fullmatch(value) is not None,
        "Timestamp": isinstance(value, str),
        "FieldMask": isinstance(value, str),
    }
    if not is_good.get(name, False):
        raise _misfit(value, message.full_name, where)
    return _free(value, where)


def _free(value: Json, where: str) -> Json:
    """Of a Struct, whose numbers are doubles."""
    if isinstance(value, dict):
        return {name: _free(each, f"{where}.{name}") for name, each in value.items()}
    if isinstance(value, list):
        return [_free(each, f"{where}[{n}]") for n, each in enumerate(value)]
    if value is None or isinstance(value, bool | str):
        return value
    try:
        return floating(value)
    except _REFUSED:
        raise _misfit(value, "double", where) from None


_NAMES = {
    number: name.removeprefix("TYPE_").lower()
    for name, number in vars(FieldDescriptor).items()
    if name.startswith("TYPE_")
}


def _misfit(value: Json, name: str, where: str) -> NotOfItsSchema:
    shown = str(value) if isinstance(value, Decimal) else repr(value)
    return NotOfItsSchema(
        f"its Protobuf schema does not take it: the field {where or 'value'} is {shown[:80]}, "
        f"which is no {name}"
    )
