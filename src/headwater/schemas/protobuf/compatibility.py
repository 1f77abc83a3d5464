"""Whether data of one Protobuf schema can be read by another: by the wire types and numbers of fields; pure.

What breaks readers, and the name of the rule that says so; everything else (fields added and removed,
renamed, enums, moves of messages) is read by both sides.

    PACKAGE_CHANGED                 MESSAGE_REMOVED
    FIELD_KIND_CHANGED              a scalar became a message, a group or a map, or the other way round; or a
                                    message a group (of an edition: DELIMITED), which is written otherwise
    FIELD_SCALAR_KIND_CHANGED       another wire form: int32, int64, uint32, uint64, bool and enums are one;
                                    sint; fixed32; fixed64; float; double; string and bytes are one each
    FIELD_NAMED_TYPE_CHANGED        another message, or one whose own change breaks readers
    FIELD_NUMERIC_LABEL_CHANGED     a number that was repeated is not, or the other way round
    REQUIRED_FIELD_ADDED, REQUIRED_FIELD_REMOVED, REQUIRED_LABEL_ADDED (of a field that could be missing)
    ONEOF_FIELD_REMOVED, MULTIPLE_FIELDS_MOVED_TO_ONEOF, FIELD_MOVED_TO_EXISTING_ONEOF
"""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FeatureSet,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from headwater.schemas.bounds import DIFFERENCES_MAX
from headwater.schemas.effort import Effort
from headwater.schemas.model import Difference

_F = FieldDescriptorProto
_SCALARS = {
    _F.TYPE_INT32: "varint", _F.TYPE_INT64: "varint", _F.TYPE_UINT32: "varint",
    _F.TYPE_UINT64: "varint", _F.TYPE_BOOL: "varint", _F.TYPE_ENUM: "varint",
    _F.TYPE_SINT32: "zigzag", _F.TYPE_SINT64: "zigzag",
    _F.TYPE_FIXED32: "fixed32", _F.TYPE_SFIXED32: "fixed32",
    _F.TYPE_FIXED64: "fixed64", _F.TYPE_SFIXED64: "fixed64",
    _F.TYPE_FLOAT: "float", _F.TYPE_DOUBLE: "double",
    _F.TYPE_STRING: "text", _F.TYPE_BYTES: "text",
}  # fmt: skip
_NAMED = {_F.TYPE_MESSAGE: "message", _F.TYPE_GROUP: "group"}
_SENTENCES = {
    "PACKAGE_CHANGED": "The package at '{path}' in the {reader} schema does not match the package in "
    "the {writer} schema",
    "MESSAGE_REMOVED": "The {reader} schema is missing a MESSAGE type at path '{path}' in the {writer} "
    "schema",
    "FIELD_KIND_CHANGED": "The type of a field at path '{path}' in the {reader} schema does not match "
    "the {writer} schema",
    "FIELD_SCALAR_KIND_CHANGED": "The kind of a SCALAR field at path '{path}' in the {reader} schema "
    "does not match its kind in the {writer} schema",
    "FIELD_NAMED_TYPE_CHANGED": "The type of a MESSAGE field at path '{path}' in the {reader} schema "
    "does not match its type in the {writer} schema",
    "FIELD_NUMERIC_LABEL_CHANGED": "The label for a NUMERIC field at path '{path}' in the {reader} "
    "schema does not match its label in the {writer} schema",
    "REQUIRED_FIELD_ADDED": "A required field at path '{path}' in the {reader} schema is missing in "
    "the {writer} schema",
    "REQUIRED_FIELD_REMOVED": "The {reader} schema is missing a required field at path '{path}' in the "
    "{writer} schema",
    "REQUIRED_LABEL_ADDED": "The field at path '{path}' is required in the {reader} schema, and may be "
    "missing by the {writer} schema",
    "ONEOF_FIELD_REMOVED": "The {reader} schema is missing a oneof field at path '{path}' in the "
    "{writer} schema",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "Multiple fields in the oneof at path '{path}' in the {reader} "
    "schema are outside a oneof in the {writer} schema",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "A field in the oneof at path '{path}' in the {reader} schema is "
    "outside an existing oneof in the {writer} schema",
}


def differences(reader: FileDescriptorSet, writer: FileDescriptorSet) -> list[Difference]:
    """The last file of each is the schema, those before it are what it imports."""
    reader, writer = _settled(reader), _settled(writer)
    return _Comparison(_Messages(reader), _Messages(writer)).run(reader.file[-1], writer.file[-1])


def _settled(files: FileDescriptorSet) -> FileDescriptorSet:
    """With groups where an edition's features say so: of the field, else of what is around it."""
    if not any(each.HasField("edition") for each in files.file):
        return files
    made = FileDescriptorSet()
    made.CopyFrom(files)
    for file in made.file:
        around = file.options.features.message_encoding
        for message in file.message_type:
            _settle(message, around)
    return made


def _settle(message: DescriptorProto, around: int) -> None:
    around = message.options.features.message_encoding or around
    maps = {each.name for each in message.nested_type if each.options.map_entry}
    for field in message.field:
        encoding = field.options.features.message_encoding or around
        is_map = field.type_name.rpartition(".")[2] in maps
        if field.type == _F.TYPE_MESSAGE and encoding == FeatureSet.DELIMITED and not is_map:
            field.type = _F.TYPE_GROUP
    for nested in message.nested_type:
        if not nested.options.map_entry:
            _settle(nested, around)


class _Messages:
    """Every message of a set of files, by its full name, and the package it is of."""

    def __init__(self, files: FileDescriptorSet) -> None:
        self.known: dict[str, DescriptorProto] = {}
        self.local: dict[str, str] = {}
        for file in files.file:
            prefix = f".{file.package}" if file.package else ""
            for message in file.message_type:
                self._add(message, prefix, prefix)

    def _add(self, message: DescriptorProto, scope: str, package: str) -> None:
        full = f"{scope}.{message.name}"
        self.known[full] = message
        self.local[full] = full.removeprefix(f"{package}.")
        for nested in message.nested_type:
            self._add(nested, full, package)


class _Comparison:
    def __init__(self, reader: _Messages, writer: _Messages) -> None:
        self._reader, self._writer = reader, writer
        self._effort = Effort()
        self.found: list[Difference] = []
        self._types: dict[tuple[str, str], bool] = {}
        """Messages that fields are of, and whether the one reads the other; while it is looked at, that it
        does.
        """

    def run(self, reader: FileDescriptorProto, writer: FileDescriptorProto) -> list[Difference]:
        if reader.package != writer.package:
            self._say("PACKAGE_CHANGED", "#/")
        self._of_messages(list(reader.message_type), list(writer.message_type), "#/")
        return self.found

    def _of_messages(
        self, reader: list[DescriptorProto], writer: list[DescriptorProto], path: str
    ) -> None:
        now = {each.name: each for each in reader}
        for was in writer:
            if was.options.map_entry or len(self.found) >= DIFFERENCES_MAX:
                continue
            here = f"{path}{was.name}"
            if was.name not in now:
                self._say("MESSAGE_REMOVED", here)
            else:
                self._of_message(now[was.name], was, here)

    def _of_message(self, reader: DescriptorProto, writer: DescriptorProto, path: str) -> None:
        self._effort.step()
        now = {each.number: each for each in reader.field}
        was = {each.number: each for each in writer.field}
        self._oneofs(reader, writer, path)
        for number in sorted({*now, *was}):
            here = f"{path}/{number}"
            new, old = now.get(number), was.get(number)
            if new is None and old is not None:
                if _is_required(old):
                    self._say("REQUIRED_FIELD_REMOVED", here)
            elif old is None and new is not None:
                if _is_required(new):
                    self._say("REQUIRED_FIELD_ADDED", here)
            elif new is not None and old is not None:
                self._field(new, old, here)
        self._of_messages(list(reader.nested_type), list(writer.nested_type), f"{path}/")

    def _oneofs(self, reader: DescriptorProto, writer: DescriptorProto, path: str) -> None:
        now, was = _members(reader), _members(writer)
        before = {number for each in was.values() for number in each}
        outside = {each.number for each in writer.field} - before
        still = {each.number for each in reader.field}
        for name, numbers in now.items():
            moved = len(numbers & outside)
            if moved > 1:
                self._say("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}/{name}")
            elif moved == 1 and numbers & before:
                self._say("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}/{name}")
        for name, numbers in was.items():
            for number in sorted(numbers - still) if name in now else ():
                self._say("ONEOF_FIELD_REMOVED", f"{path}/{name}/{number}")

    def _field(self, reader: FieldDescriptorProto, writer: FieldDescriptorProto, path: str) -> None:
        if _is_required(reader) and not _is_required(writer):
            self._say("REQUIRED_LABEL_ADDED", path)
        maps = self._map_of(reader, self._reader), self._map_of(writer, self._writer)
        if maps[0] is not None and maps[1] is not None:
            for number in (0, 1):
                self._field(maps[0].field[number], maps[1].field[number], path)
            return
        kinds = tuple(
            "map" if map_ else _SCALARS.get(field.type) or _NAMED[field.type]
            for map_, field in zip(maps, (reader, writer), strict=True)
        )
        is_scalar = [kind not in ("map", *_NAMED.values()) for kind in kinds]
        if is_scalar[0] != is_scalar[1] or (not is_scalar[0] and kinds[0] != kinds[1]):
            self._say("FIELD_KIND_CHANGED", path)
        elif not is_scalar[0]:
            self._named(reader.type_name, writer.type_name, path)
        elif kinds[0] != kinds[1]:
            self._say("FIELD_SCALAR_KIND_CHANGED", path)
        elif kinds[0] != "text" and _is_repeated(reader) != _is_repeated(writer):
            self._say("FIELD_NUMERIC_LABEL_CHANGED", path)

    def _named(self, reader: str, writer: str, path: str) -> None:
        if self._reader.local.get(reader) != self._writer.local.get(writer):
            self._say("FIELD_NAMED_TYPE_CHANGED", path)
            return
        pair = (reader, writer)
        if pair not in self._types:
            self._types[pair] = True
            inside = _Comparison(self._reader, self._writer)
            inside._types, inside._effort = self._types, self._effort
            inside._of_message(self._reader.known[reader], self._writer.known[writer], path)
            self._types[pair] = not inside.found
        if not self._types[pair]:
            self._say("FIELD_NAMED_TYPE_CHANGED", path)

    def _map_of(self, field: FieldDescriptorProto, messages: _Messages) -> DescriptorProto | None:
        found = messages.known.get(field.type_name) if field.type == _F.TYPE_MESSAGE else None
        return found if found is not None and found.options.map_entry else None

    def _say(self, kind: str, path: str) -> None:
        if len(self.found) < DIFFERENCES_MAX:
            said = _SENTENCES[kind].replace("{path}", path)
            self.found.append(Difference(kind, path, said))


def _is_repeated(field: FieldDescriptorProto) -> bool:
    return field.label == _F.LABEL_REPEATED


def _is_required(field: FieldDescriptorProto) -> bool:
    """By its label or, of an edition, by its feature."""
    feature = field.options.features.field_presence
    return field.label == _F.LABEL_REQUIRED or feature == FeatureSet.LEGACY_REQUIRED


def _members(message: DescriptorProto) -> dict[str, set[int]]:
    """The real oneofs, with the numbers of their fields."""
    found: dict[str, set[int]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            found.setdefault(message.oneof_decl[field.oneof_index].name, set()).add(field.number)
    return found
