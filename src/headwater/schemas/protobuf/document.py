"""A Protobuf schema that was sent: compiled, with what it imports. `kinds` calls `parse`."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from functools import cached_property

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

from headwater.schemas import bounds
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.model import PROTOBUF, Difference, Imported
from headwater.schemas.protobuf import compatibility, compiler, printer


class ProtobufSchema:
    kind = PROTOBUF

    def __init__(
        self, sent: str, files: FileDescriptorSet, imported: Sequence[Imported] = ()
    ) -> None:
        self._sent, self.files, self._imported = sent, files, imported

    @property
    def file(self) -> FileDescriptorProto:
        return self.files.file[-1]

    @cached_property
    def canonical(self) -> str:
        return printer.text_of(self.file) if self._is_printable else self._sent.strip()

    @cached_property
    def normalized(self) -> str:
        if not self._is_printable:
            return self.canonical
        return printer.text_of(self.file, is_normalized=True)

    @cached_property
    def _is_printable(self) -> bool:
        """Whether the printed text means what was sent; custom options are extensions that only their own
        file knows. Where it does not, the text stays as it came.
        """
        sent = compiler.descriptor_of(self._sent)
        if sent is not None:
            return _compared(sent) == _compared(self.file)
        try:
            printed = compiler.compiled(printer.text_of(self.file), self._imported)
        except InvalidSchema:
            return False
        return _compared(printed.file[-1]) == _compared(self.file)

    @property
    def serialized(self) -> str:
        """The descriptor in base64 (`format=serialized`)."""
        return base64.b64encode(self.file.SerializeToString()).decode()

    @property
    def whole(self) -> str:
        return self.canonical

    @property
    def descriptors(self) -> str:
        """In base64, with all that it imports, for `schemas.descriptors`."""
        return base64.b64encode(self.files.SerializeToString()).decode()

    def unreadable(self, written: ProtobufSchema) -> list[Difference]:
        return compatibility.differences(self.files, written.files)


def parse(text: str, imported: Sequence[Imported], *, is_new: bool) -> ProtobufSchema:
    """Raises InvalidSchema."""
    files = compiler.compiled(compiler.text_of(text), imported)
    if is_new:
        _check_names(files.file[-1].enum_type, files.file[-1].message_type)
    return ProtobufSchema(text, files, imported)


def _check_names(enums: Iterable[EnumDescriptorProto], messages: Iterable[DescriptorProto]) -> None:
    for enum in enums:
        for symbol in enum.value:
            bounds.check_name(symbol.name)
    for message in messages:
        for field in message.field:
            bounds.check_name(field.name)
        _check_names(message.enum_type, message.nested_type)


def _compared(file: FileDescriptorProto) -> bytes:
    """Deterministic bytes of what a printed text keeps: equal, unless something got lost on the way."""
    copy = FileDescriptorProto()
    copy.CopyFrom(file)
    copy.ClearField("name")
    copy.ClearField("source_code_info")
    for message in copy.message_type:
        _same_names(message)
    return copy.SerializeToString(deterministic=True)


def _same_names(message: DescriptorProto) -> None:
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        _same_names(nested)
