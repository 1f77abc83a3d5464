""".proto text to descriptors, by protoc itself (grpcio-tools), and text from a descriptor that was sent.

Nothing is read but what was sent: the schema and its references lie in a folder of their own, and protoc's
source tree takes no path that leads out of it. Google's own types are those that come with protoc.
"""

from __future__ import annotations

import base64
import binascii
import re
import tempfile
import warnings
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Protocol

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from headwater.schemas import bounds
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.model import Imported
from headwater.schemas.protobuf import printer

FILE = "schema.proto"
_IMPORT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
_lock = Lock()
"""protoc is called inside of this process, and writes its files by names."""


class ProtocError(Protocol):
    filename: bytes
    line: int
    column: int
    message: bytes


class ProtocErrors(Protocol):
    def errors(self) -> Sequence[ProtocError]: ...


def compiled(text: str, imported: Sequence[Imported]) -> FileDescriptorSet:
    """The file and all that it imports, in the order of dependence; the last is the file. InvalidSchema."""
    return _compiled(text, tuple(imported))


@lru_cache(maxsize=64)
def _compiled(text: str, imported: tuple[Imported, ...]) -> FileDescriptorSet:
    for one in (text, *(each.text for each in imported)):
        bounds.check_depth(one, "{[(<", "}])>", "\"'")
    with tempfile.TemporaryDirectory(prefix="headwater-proto-") as folder:
        for each in imported:
            _place(Path(folder), each)
        (Path(folder) / FILE).write_text(text, encoding="utf-8")
        with _lock:
            return _run(folder)


def _place(folder: Path, each: Imported) -> None:
    if not _IMPORT.fullmatch(each.name) or ".." in each.name or each.name == FILE:
        raise InvalidSchema(f"Invalid schema: {each.name!r} cannot be the name of an import"[:300])
    path = folder / each.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text_of(each.text), encoding="utf-8")


def _run(folder: str) -> FileDescriptorSet:
    from grpc_tools import _protoc_compiler

    out = Path(folder) / "out.bin"
    words = ["protoc", f"-I{folder}", f"-I{_google()}", "--include_imports",
             f"--descriptor_set_out={out}", FILE]  # fmt: skip
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an import that nobody uses
            # It returns the mistakes; the command itself only prints them.
            _protoc_compiler.get_protos(FILE.encode(), [folder.encode(), _google().encode()])
    except _protoc_compiler.ProtocErrors as error:
        raise InvalidSchema(f"Invalid schema: {_sentence(error)}") from None
    if _protoc_compiler.run_main([word.encode() for word in words]) != 0 or not out.exists():
        raise InvalidSchema("Invalid schema: protoc does not take it")
    return FileDescriptorSet.FromString(out.read_bytes())


@lru_cache(maxsize=1)
def _google() -> str:
    from importlib.resources import files

    return str(files("grpc_tools") / "_proto")


def _sentence(error: ProtocErrors) -> str:
    said = []
    for each in error.errors():
        message = each.message.decode("utf-8", "replace")
        where = each.filename.decode("utf-8", "replace")
        said.append(f"{where}:{each.line + 1}:{each.column + 1}: {message}")
    return "; ".join(said)[:1000]


def text_of(text: str) -> str:
    """As it is, where it is text; a descriptor in base64 (as confluent-kafka sends it) becomes text."""
    file = descriptor_of(text)
    return text if file is None else printer.text_of(file)


def descriptor_of(text: str) -> FileDescriptorProto | None:
    """The descriptor that a text is in base64; None: it is .proto."""
    if any(each in text for each in ";{") or not text.strip():
        return None
    try:
        data = base64.b64decode(text.strip(), validate=True)
        return FileDescriptorProto.FromString(data)
    except (binascii.Error, ValueError, DecodeError):
        return None
