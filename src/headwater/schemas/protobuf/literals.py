"""Values as .proto text has them: defaults and options; pure. `printer` asks."""

from __future__ import annotations

import re

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto

_F = FieldDescriptorProto
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def default(field: FieldDescriptorProto) -> str:
    if field.type == _F.TYPE_BYTES:
        return f'"{field.default_value}"'  # in a descriptor they are escaped already
    return quoted(field.default_value) if field.type == _F.TYPE_STRING else field.default_value


def value(field: FieldDescriptor, value: object) -> str:
    if field.enum_type is not None and isinstance(value, int):
        return str(field.enum_type.values_by_number[value].name)
    if isinstance(value, bool):
        return str(value).lower()
    return quoted(value) if isinstance(value, str) else str(value)


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + _CONTROL.sub(lambda each: f"\\{ord(each[0]):03o}", escaped) + '"'
