"""Schemas for who reads values, parsed where they are needed; protoc alone runs in a process of its own.

protoc holds the interpreter while it looks, for seconds where a stranger's file has tens of thousands of
messages or ranges: whoever serves others beside it would stand still. `values.codecs` and whoever makes
columns ask here. The process ends with its answer.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import grpc_tools  # noqa: F401  who lacks it is told so here, and not by a process that ends
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from headwater.schemas.model import PROTOBUF, Imported
from headwater.schemas.parser import Source
from headwater.schemas.protobuf.document import ProtobufSchema
from headwater.schemas.sandbox import Sandbox

_sandbox = Sandbox()


def of(text: str, imported: Sequence[Imported]) -> ProtobufSchema:
    """Raises InvalidSchema, or RegistryError where it takes too much."""
    try:
        source = Source(PROTOBUF, text, tuple(imported))
        found = _sandbox.text(source, "descriptors", is_new=False)
    finally:
        _sandbox.close()
    files = FileDescriptorSet.FromString(base64.b64decode(found))
    return ProtobufSchema(text, files, imported)
