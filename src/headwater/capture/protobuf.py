"""Debezium's envelope as Protobuf; `encoders` makes one for each shape of a table.

A column has the number that any version of its subject has for its name (`field_numbers`). A value: five
bytes with the schema's id, a zero (the file's first message), the message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from headwater.capture.binary_encoder import BinaryEncoder, Row, field_name
from headwater.capture.envelope import Column, Connect, envelope_schema, key_schema
from headwater.schemas.protobuf import printer
from headwater.schemas.protobuf.field_numbers import Known, known_numbers, number
from headwater.schemas.values.header import Json, prefix

_FIRST = b"\0"
_TYPES = {
    **dict.fromkeys(("int8", "int16", "int32"), FieldDescriptorProto.TYPE_INT32),
    "int64": FieldDescriptorProto.TYPE_INT64,
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "boolean": FieldDescriptorProto.TYPE_BOOL,
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
}


class ProtobufEncoder(BinaryEncoder):
    """`texts`: key or value → those of all versions before; `identify`: (key or value, text) → its id."""

    has_nulls_in_lists = False

    def __init__(
        self,
        topic: str,
        columns: Sequence[Column],
        key: Sequence[int],
        source: Connect,
        texts: Callable[[str], Sequence[str]],
        identify: Callable[[str, str], int],
        *,
        tombstones: bool = True,
    ) -> None:
        super().__init__(topic, columns, key, tombstones=tombstones)
        schemas = {"value": envelope_schema(topic, columns, source)}
        if key:
            schemas["key"] = key_schema(topic, columns, key)
        self._prefixes: dict[str, bytes] = {}
        self._messages: dict[str, type[Message]] = {}
        for part, connect in schemas.items():
            file = proto_file(connect, texts(part))
            self._prefixes[part] = prefix(identify(part, printer.text_of(file))) + _FIRST
            self._messages[part] = _message_class(file)

    def key_prefix(self) -> str:
        return self._prefixes["key"].hex()

    def encoded(self, part: str, record: Row) -> bytes:
        said = {name: value for name, value in record.items() if value is not None}
        made = self._messages[part](**{name: _inside(value) for name, value in said.items()})
        return self._prefixes[part] + made.SerializeToString()


def _inside(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _inside(each) for name, each in value.items() if each is not None}
    return [_inside(each) for each in value] if isinstance(value, list) else value


def proto_file(connect: Connect, before: Sequence[str]) -> FileDescriptorProto:
    """A struct of Kafka Connect as a file whose first message it is; `before`: the texts that it follows."""
    known = known_numbers(before)
    package = ".".join(field_name(part) for part in str(connect["name"]).split(".")[:-1])
    file = FileDescriptorProto(name="schema.proto", package=package, syntax="proto3")
    _add(file, connect, known)
    return file


def _add(file: FileDescriptorProto, connect: Connect, known: Known) -> str:
    """The name of its message, which is in the file now."""
    name = field_name(str(connect["name"]).rpartition(".")[2])
    if any(each.name == name for each in file.message_type):
        return name
    message = file.message_type.add(name=name)
    numbers = dict(known.get(name, {}))
    for each in connect["fields"]:
        _field(file, message, each, numbers, known)
    _name_oneofs(message)
    return name


def _name_oneofs(message: DescriptorProto) -> None:
    """Of fields that may be missing, as protoc does it: with more letters where a field has the name."""
    taken = {each.name for each in message.field}
    for field in message.field:
        if field.proto3_optional:
            name = f"_{field.name}"
            while name in taken:
                name = f"X{name}"
            taken.add(name)
            message.oneof_decl[field.oneof_index].name = name


def _field(
    file: FileDescriptorProto,
    message: DescriptorProto,
    connect: Connect,
    numbers: dict[str, int],
    known: Known,
) -> None:
    name = field_name(connect["field"])
    made = message.field.add(name=name, number=number(name, numbers))
    made.label = FieldDescriptorProto.LABEL_OPTIONAL
    kind = connect
    if connect["type"] == "array":
        made.label, kind = FieldDescriptorProto.LABEL_REPEATED, connect["items"]
    if kind["type"] == "struct":
        made.type = FieldDescriptorProto.TYPE_MESSAGE
        made.type_name = f".{file.package}.{_add(file, kind, known)}".replace("..", ".")
    else:
        made.type = _TYPES[kind["type"]]
        if connect.get("optional") and made.label == FieldDescriptorProto.LABEL_OPTIONAL:
            made.proto3_optional = True
            made.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add()


def _message_class(file: FileDescriptorProto) -> type[Message]:
    pool = DescriptorPool()
    pool.Add(file)
    first = file.message_type[0].name
    return GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{first}".lstrip(".")))
