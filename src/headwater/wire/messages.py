"""Bytes to requests and responses to bytes: which message a frame holds, and the frame of an answer.

The connection calls `decode` for a frame and `encode` for a handler's answer. The shape of
every message, in every version, comes from kio's generated entities:

- a request becomes kio's entity of that version (kio's native parser). A field that a version does
  not have is absent: handlers read it with `getattr(request, name, default)`.
- a response is a plain dict (nested dicts and lists), see `writer`.

Frame:  size int32 | header | body        (size counts what follows it)
Request header v1: api_key int16 | api_version int16 | correlation_id int32 | client_id nullable string
        v2: the same + tagged fields. Response header v0: correlation_id, v1: + tagged fields
        (ApiVersions always answers with v0, so that any client can read it: KIP-511).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple

from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader

from headwater.record.varint import Buffer
from headwater.wire import guard
from headwater.wire.errors import WireError
from headwater.wire.writer import Put, entity_writer

API_VERSIONS = 18
ROWS_AT_ONCE_MAX = 500

_HEADER = struct.Struct(">hhih")
_pack_i32 = struct.Struct(">i").pack


class Header(NamedTuple):
    """What every request starts with."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str
    size: int


def read_header(frame: Buffer) -> Header:
    """The version-independent part of a request header (tagged fields are skipped by `decode`)."""
    view = memoryview(frame)
    try:
        api_key, api_version, correlation_id, length = _HEADER.unpack_from(view)
    except struct.error:
        raise WireError(f"a request of {len(view)} bytes is shorter than its header") from None
    end = _HEADER.size + max(length, 0)
    if length < -1 or end > len(view):
        raise WireError(f"client id length {length} exceeds the request's {len(view)} bytes")
    try:
        client_id = str(view[_HEADER.size : end], "utf-8")
    except UnicodeDecodeError:
        raise WireError("the client id is not UTF-8") from None
    return Header(api_key, api_version, correlation_id, client_id, end)


def decode(frame: Buffer, header: Header) -> Any:
    """The body of a request, as kio's entity of its version."""
    return weighed(frame, header)[0]


def weighed(frame: Buffer, header: Header) -> tuple[Any, int]:
    """The same, and about how many bytes of memory it takes.

    Bytes behind it are ignored, as Kafka does: librdkafka leaves three in some Metadata requests.
    """
    read, schema = _request_reader(header.api_key, header.api_version)
    view = memoryview(frame).toreadonly()
    try:
        position = header.size
        if schema.__flexible__:
            position = guard.tagged_fields(view, position)
        elements = guard.check(schema, view, position)
        entity, _ = read(view, position)
    except WireError:
        raise
    except Exception as error:  # kio raises what its parser met: underflow, bad UTF-8, bad enum
        raise WireError(f"cannot be parsed: {error or type(error).__name__}") from error
    return entity, len(view) + elements * guard.ELEMENT_BYTES


def is_much(body: Mapping[str, Any], depth: int = 4) -> bool:
    """Whether a response has so many rows that the event loop has no time to write them; rows within
    rows are counted down to this depth."""
    return _rows(body, depth) > ROWS_AT_ONCE_MAX


def _rows(row: Mapping[str, Any], depth: int) -> int:
    rows = 0
    for value in row.values():
        if type(value) is dict:
            rows += _rows(value, depth)
        elif type(value) is list:
            rows += len(value)
            if depth > 1:
                for each in value:
                    if rows > ROWS_AT_ONCE_MAX:
                        return rows
                    if type(each) is dict:
                        rows += _rows(each, depth - 1)
    return rows


def has_error_code(api_key: int, api_version: int) -> bool:
    """Whether the response can say as a whole that the request was wrong."""
    schema: Any = load_response_schema(api_key, api_version)
    return any(field.name == "error_code" for field in fields(schema))


def encode(
    api_key: int,
    api_version: int,
    correlation_id: int,
    body: Mapping[str, Any],
    *,
    is_list: bool = False,
) -> list[Buffer]:
    """The whole response frame as a list of buffers, ready for `writelines`. `is_list`: it may have very
    many fields and no records, so it is written into one buffer: in pieces it takes twenty times as much."""
    put, header = _response_writer(api_key, api_version)
    if is_list:
        whole = bytearray(_pack_i32(0) + _pack_i32(correlation_id) + header)
        put(whole.extend, body)
        whole[:4] = _pack_i32(len(whole) - 4)
        return [whole]
    chunks: list[Buffer] = []
    put(chunks.append, body)
    size = sum(map(len, chunks)) + 4 + len(header)
    prefix = _pack_i32(size) + _pack_i32(correlation_id) + header
    if len(chunks) == 1 or size < 4096:
        return [b"".join((prefix, *chunks))]
    return _coalesced(prefix, chunks)


def _coalesced(prefix: bytes, chunks: list[Buffer]) -> list[Buffer]:
    """Join the small pieces, so that only record data stands on its own."""
    out: list[Buffer] = []
    small: list[Buffer] = [prefix]
    for chunk in chunks:
        if len(chunk) < 4096:
            small.append(chunk)
        else:
            out += (b"".join(small), chunk)
            small = []
    if small:
        out.append(b"".join(small))
    return out


@cache
def _request_reader(api_key: int, api_version: int) -> tuple[Callable[[Buffer, int], Any], Any]:
    schema: Any = load_request_schema(api_key, api_version)
    return entity_reader(schema), schema


@cache
def _response_writer(api_key: int, api_version: int) -> tuple[Put, bytes]:
    schema: Any = load_response_schema(api_key, api_version)
    header = b"\0" if schema.__flexible__ and api_key != API_VERSIONS else b""
    return entity_writer(schema), header
