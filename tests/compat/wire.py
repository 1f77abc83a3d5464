"""A small blocking Kafka client that sends exactly what a test says, in exactly that version.

Messages are named as in kio (`fetch`, `join_group`) and given as plain dicts and lists; fields
left out take the protocol's default, or zero. Answers are kio's entities, and trailing bytes in an
answer are an error.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import itertools
import socket
import ssl
import struct
import types
import typing
import uuid
from collections.abc import Iterator
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

API_KEYS = {name: key for key, name in api_key_map.items()}
_zeroes: dict[Any, Any] = {bool: False, str: "", bytes: b"", uuid.UUID: uuid.UUID(int=0)}


def kio_versions(api: str) -> list[int]:
    """The versions of an API that kio can read and write."""
    return sorted(schema_name_map[api])


def build(entity: type[Any], values: dict[str, Any], lenient: bool = False) -> Any:
    """An entity from a dict; `lenient` leaves out what this version of the message does not have."""
    hints = _hints(entity)
    known = {each.name for each in fields(entity)}
    unknown = values.keys() - known
    assert lenient or not unknown, f"{entity.__module__} has no {unknown}, it has {known}"
    filled = {}
    for each in fields(entity):
        if each.name in values:
            filled[each.name] = _convert(hints[each.name], values[each.name], lenient)
        elif each.default is MISSING:
            filled[each.name] = _zero(hints[each.name])
    return entity(**filled)


@cache
def _hints(entity: type[Any]) -> dict[str, Any]:
    return typing.get_type_hints(entity)


def _optional(hint: Any) -> tuple[Any, bool]:
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        inner = [each for each in typing.get_args(hint) if each is not type(None)]
        return inner[0], True
    return hint, False


def _zero(hint: Any) -> Any:
    hint, optional = _optional(hint)
    if typing.get_origin(hint) is tuple:
        return ()
    if optional:
        return None
    if hasattr(hint, "__dataclass_fields__"):
        return build(hint, {})
    if issubclass(hint, datetime.timedelta):
        return datetime.timedelta()
    for base, zero in _zeroes.items():
        if issubclass(hint, base):
            return zero
    return 0


def _convert(hint: Any, value: Any, lenient: bool) -> Any:
    hint, _ = _optional(hint)
    if value is None:
        return None
    if typing.get_origin(hint) is tuple:
        return tuple(_convert(typing.get_args(hint)[0], each, lenient) for each in value)
    if isinstance(value, dict):
        return build(hint, value, lenient)
    if issubclass(hint, datetime.timedelta):
        return datetime.timedelta(milliseconds=value)
    return value


class ConnectionClosed(Exception):
    """The server closed the connection instead of answering."""


class Wire:
    """One connection. Requests may be sent ahead of their answers, which come in order."""

    def __init__(
        self, bootstrap: str, timeout: float = 60.0, tls: ssl.SSLContext | None = None
    ) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=timeout)
        if tls is not None:
            self._socket = tls.wrap_socket(self._socket, server_hostname=host)
        self._correlation = itertools.count(1)
        self._waiting: dict[int, type[Any]] = {}
        self._versions: dict[int, tuple[int, int]] | None = None

    def close(self) -> None:
        self._socket.close()

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """What the server says it speaks: API key → (lowest, highest)."""
        if self._versions is None:
            keys = self.ask("api_versions", 0).api_keys
            self._versions = {each.api_key: (each.min_version, each.max_version) for each in keys}
        return self._versions

    def common(self, api: str) -> list[int]:
        """The versions of an API that both the server and kio have."""
        low, high = self.versions[API_KEYS[api]]
        return [version for version in kio_versions(api) if low <= version <= high]

    def ask(self, api: str, version: int | None = None, /, **values: Any) -> Any:
        """Send one request (in the newest common version) and wait for its answer."""
        self.send(api, self.common(api)[-1] if version is None else version, **values)
        return self.receive()[1]

    def send(
        self, api: str, version: int, /, lenient: bool = False, answer: bool = True, **values: Any
    ) -> int:
        """Send without waiting; `answer=False` where none will come (produce with acks=0)."""
        schema = load_entity_schema(api, version, EntityType.request)
        correlation = next(self._correlation)
        self.send_bytes(encode(build(schema, values, lenient), correlation))
        if answer:
            self._waiting[correlation] = load_entity_schema(api, version, EntityType.response)
        return correlation

    def send_bytes(self, request: bytes) -> None:
        """A frame around any bytes."""
        self._socket.sendall(struct.pack(">i", len(request)) + request)

    def send_unframed(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> tuple[int, Any]:
        """The next answer, decoded: (correlation id, entity)."""
        frame = self.receive_bytes()
        correlation = int.from_bytes(frame[:4], "big")
        return correlation, decode(self._waiting.pop(correlation), frame)

    def receive_bytes(self) -> bytes:
        length = struct.unpack(">i", self._exactly(4))[0]
        return self._exactly(length)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self._socket.recv(size - len(parts))
            except ConnectionResetError:
                part = b""
            if not part:
                raise ConnectionClosed(f"closed after {len(parts)} of {size} bytes")
            parts += part
        return bytes(parts)


def encode(request: Any, correlation: int) -> bytes:
    """Header and body of a request."""
    header = request.__header_schema__(
        request_api_key=request.__api_key__,
        request_api_version=request.__version__,
        correlation_id=correlation,
        client_id="wire",
    )
    out = io.BytesIO()
    entity_writer(type(header))(out, header)
    entity_writer(type(request))(out, request)
    return out.getvalue()


def decode(response: type[Any], frame: bytes) -> Any:
    """The body of an answer; every byte must be used."""
    _, header_bytes = entity_reader(response.__header_schema__)(frame, 0)
    entity, body_bytes = entity_reader(response)(frame, header_bytes)
    left = frame[header_bytes + body_bytes :]
    assert not left, f"{len(left)} bytes after {response.__module__}: {left[:40]!r}"
    return entity


@contextlib.contextmanager
def connected(bootstrap: str) -> Iterator[Wire]:
    wire = Wire(bootstrap)
    try:
        yield wire
    finally:
        wire.close()


__all__ = ["API_KEYS", "ConnectionClosed", "ErrorCode", "Wire", "build", "connected", "decode"]
