"""A file descriptor as .proto text: the canonical form of every Protobuf schema; pure.

`is_normalized` sorts what has no order of its own: imports, options, reserved numbers; fields and values
by number. Options that are extensions (`option (…)`) are not in a descriptor's known fields, and groups of
extensions are not printed as such: `document` compares, and keeps such texts as they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)
from google.protobuf.message import Message

from headwater.schemas.protobuf import literals
from headwater.schemas.protobuf.field_numbers import by_number

_F = FieldDescriptorProto
_TYPES = {
    _F.TYPE_DOUBLE: "double", _F.TYPE_FLOAT: "float", _F.TYPE_INT64: "int64",
    _F.TYPE_UINT64: "uint64", _F.TYPE_INT32: "int32", _F.TYPE_FIXED64: "fixed64",
    _F.TYPE_FIXED32: "fixed32", _F.TYPE_BOOL: "bool", _F.TYPE_STRING: "string",
    _F.TYPE_BYTES: "bytes", _F.TYPE_UINT32: "uint32", _F.TYPE_SFIXED32: "sfixed32",
    _F.TYPE_SFIXED64: "sfixed64", _F.TYPE_SINT32: "sint32", _F.TYPE_SINT64: "sint64",
}  # fmt: skip
_RANGE_END = 536_870_912
_ENUM_END = 2_147_483_647


def text_of(file: FileDescriptorProto, *, is_normalized: bool = False) -> str:
    return "\n".join(_Printer(file, is_normalized).lines()) + "\n"


def type_name(field: FieldDescriptorProto) -> str:
    return _TYPES.get(field.type) or field.type_name


class _Printer:
    def __init__(self, file: FileDescriptorProto, is_normalized: bool) -> None:
        self._file, self._is_normalized = file, is_normalized
        self._is_proto3 = file.syntax == "proto3"
        self._is_edition = file.syntax == "editions"

    def lines(self) -> Iterator[str]:
        file = self._file
        if self._is_edition:
            yield f'edition = "{_edition(file)}";'
        else:
            yield f'syntax = "{file.syntax or "proto2"}";'
        if file.package:
            yield f"package {file.package};"
        yield from self._imports()
        options = [f"option {each};" for each in self._options(file.options)]
        yield from (["", *options] if options else [])
        for message in file.message_type:
            yield ""
            yield from self._message(message, "")
        for enum in file.enum_type:
            yield ""
            yield from self._enum(enum, "")
        for service in file.service:
            yield ""
            yield from self._service(service)
        yield from self._extensions(file.extension, "")

    def _imports(self) -> Iterator[str]:
        file = self._file
        named = list(enumerate(file.dependency))
        if named:
            yield ""
        for number, name in (
            sorted(named, key=lambda each: each[1]) if self._is_normalized else named
        ):
            kind = "public " if number in file.public_dependency else ""
            kind = kind or ("weak " if number in file.weak_dependency else "")
            yield f'import {kind}"{name}";'

    def _message(self, message: DescriptorProto, indent: str) -> Iterator[str]:
        yield f"{indent}message {message.name} {{"
        yield from self._body(message, indent + "  ")
        yield f"{indent}}}"

    def _body(self, message: DescriptorProto, indent: str) -> Iterator[str]:
        yield from (
            f"{indent}option {each};" for each in self._options(message.options, "map_entry")
        )
        yield from self._reserved(message, indent)
        entries = {each.name: each for each in message.nested_type if each.options.map_entry}
        groups = {
            each.type_name.rpartition(".")[2]
            for each in message.field
            if each.type == _F.TYPE_GROUP
        }
        makers, fields = {*entries, *groups}, list(message.field)
        fields = by_number(fields, makers) if self._is_normalized else fields
        written: set[int] = set()
        plain = [each for each in message.nested_type if each.name not in makers]
        places = {each.name: n for n, each in enumerate(message.nested_type)}
        for field in fields:
            made = places.get(
                field.type_name.rpartition(".")[2], 0
            )  # a map makes a type where it is
            while plain and places[plain[0].name] < made:
                yield from self._message(plain.pop(0), indent)
            if field.HasField("oneof_index") and not field.proto3_optional:
                if field.oneof_index not in written:
                    written.add(field.oneof_index)
                    yield from self._oneof(message, fields, field.oneof_index, indent)
            else:
                yield from self._field(message, field, entries, indent)
        for nested in plain:
            yield from self._message(nested, indent)
        for enum in message.enum_type:
            yield from self._enum(enum, indent)
        yield from self._extensions(message.extension, indent)

    def _oneof(
        self,
        message: DescriptorProto,
        fields: Sequence[FieldDescriptorProto],
        index: int,
        indent: str,
    ) -> Iterator[str]:
        declared = message.oneof_decl[index]
        yield f"{indent}oneof {declared.name} {{"
        yield from (f"{indent}  option {each};" for each in self._options(declared.options))
        for field in fields:
            if field.HasField("oneof_index") and field.oneof_index == index:
                yield from self._field(message, field, {}, indent + "  ", in_oneof=True)
        yield f"{indent}}}"

    def _field(
        self,
        message: DescriptorProto | None,
        field: FieldDescriptorProto,
        entries: dict[str, DescriptorProto],
        indent: str,
        *,
        in_oneof: bool = False,
    ) -> Iterator[str]:
        options = self._field_options(field)
        entry = entries.get(field.type_name.rpartition(".")[2])
        if entry is not None and field.label == _F.LABEL_REPEATED:
            kinds = {each.number: type_name(each) for each in entry.field}
            yield f"{indent}map<{kinds[1]}, {kinds[2]}> {field.name} = {field.number}{options};"
            return
        label = "" if in_oneof else self._label(field)
        if field.type == _F.TYPE_GROUP and message is not None:
            name = field.type_name.rpartition(".")[2]
            (group,) = (each for each in message.nested_type if each.name == name)
            yield f"{indent}{label}group {name} = {field.number}{options} {{"
            yield from self._body(group, indent + "  ")
            yield f"{indent}}}"
            return
        yield f"{indent}{label}{type_name(field)} {field.name} = {field.number}{options};"

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label == _F.LABEL_REPEATED:
            return "repeated "
        if field.label == _F.LABEL_REQUIRED:
            return "required "
        return (
            "optional "
            if field.proto3_optional or not (self._is_proto3 or self._is_edition)
            else ""
        )

    def _field_options(self, field: FieldDescriptorProto) -> str:
        said = []
        if field.HasField("default_value"):
            said.append(f"default = {literals.default(field)}")
        if field.HasField("json_name") and field.json_name != _json_name(field.name):
            said.append(f"json_name = {literals.quoted(field.json_name)}")
        said += self._options(field.options)
        return f" [{', '.join(said)}]" if said else ""

    def _reserved(self, message: DescriptorProto, indent: str) -> Iterator[str]:
        ranges = [(each.start, each.end - 1) for each in message.reserved_range]
        yield from self._reservation(
            "reserved", ranges, message.reserved_name, indent, _RANGE_END - 1
        )
        ranges = [(each.start, each.end - 1) for each in message.extension_range]
        yield from self._reservation("extensions", ranges, (), indent, _RANGE_END - 1)

    def _reservation(
        self,
        word: str,
        ranges: Sequence[tuple[int, int]],
        names: Sequence[str],
        indent: str,
        most: int,
    ) -> Iterator[str]:
        if ranges:
            said = [
                str(first) if first == last else f"{first} to {'max' if last >= most else last}"
                for first, last in (sorted(ranges) if self._is_normalized else ranges)
            ]
            yield f"{indent}{word} {', '.join(said)};"
        if names:
            said = [each if self._is_edition else literals.quoted(each) for each in names]
            yield f"{indent}{word} {', '.join(sorted(said) if self._is_normalized else said)};"

    def _enum(self, enum: EnumDescriptorProto, indent: str) -> Iterator[str]:
        inner = indent + "  "
        yield f"{indent}enum {enum.name} {{"
        yield from (f"{inner}option {each};" for each in self._options(enum.options))
        ranges = [(each.start, each.end) for each in enum.reserved_range]
        yield from self._reservation("reserved", ranges, enum.reserved_name, inner, _ENUM_END)
        values = list(enum.value)
        if self._is_normalized:
            values = values[:1] + sorted(values[1:], key=lambda each: (each.number, each.name))
        for value in values:
            options = list(self._options(value.options))
            said = f" [{', '.join(options)}]" if options else ""
            yield f"{inner}{value.name} = {value.number}{said};"
        yield f"{indent}}}"

    def _service(self, service: ServiceDescriptorProto) -> Iterator[str]:
        yield f"service {service.name} {{"
        yield from (f"  option {each};" for each in self._options(service.options))
        for method in service.method:
            given = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
            back = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
            line = f"  rpc {method.name} ({given}) returns ({back})"
            options = list(self._options(method.options))
            if options:
                yield f"{line} {{"
                yield from (f"    option {each};" for each in options)
                yield "  }"
            else:
                yield f"{line};"
        yield "}"

    def _extensions(self, fields: Sequence[FieldDescriptorProto], indent: str) -> Iterator[str]:
        for field in fields:
            yield f"{indent}extend {field.extendee} {{"
            yield from self._field(None, field, {}, indent + "  ")
            yield f"{indent}}}"

    def _options(self, options: Message, *without: str) -> list[str]:
        said = []
        for field, value in options.ListFields():
            if field.is_extension or field.name in without:
                continue
            if field.name == "features":
                said += [f"features.{each}" for each in self._options(value)]
            elif field.message_type is None:
                values = value if field.is_repeated else [value]
                said += [f"{field.name} = {literals.value(field, each)}" for each in values]
        return sorted(said) if self._is_normalized else said


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in rest)


def _edition(file: FileDescriptorProto) -> str:
    from google.protobuf.descriptor_pb2 import Edition

    return Edition.Name(file.edition).removeprefix("EDITION_")
