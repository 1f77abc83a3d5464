"""Text, bytes and what is stored as bytes: CHAR to BLOB, geometries, UUIDs, network addresses; pure.

Called by `values`. Every maker takes a column and gives its `Field`.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import uuid
import zlib
from collections.abc import Callable

from headwater.capture.envelope import Column, quote
from headwater.capture.errors import BinlogUnreadable, SchemaUnknown
from headwater.capture.mysql import charsets, json_binary
from headwater.capture.mysql import table_map as wire
from headwater.capture.mysql.columns import Description, Field, Style, shown


def _base64(raw: bytes) -> str:
    return f'"{base64.b64encode(raw).decode()}"'


def length_bytes(shape: wire.Wire) -> int:
    """So many stand before a value that has at most `first` bytes."""
    return 1 if shape.first < 256 else 2


def string(column: Description, style: Style) -> Field:
    """CHAR, VARCHAR, BINARY, VARBINARY and MariaDB's types that are stored as BINARY."""
    before = length_bytes(column.wire)
    if column.special:
        return _special(column, before)
    if column.charset == charsets.BINARY and column.wire.type == wire.STRING:
        size = column.wire.first  # the log leaves trailing zero bytes away
        return Field(
            shown(column, "bytes"),
            length_bytes=before,
            convert=lambda raw: _base64(raw.ljust(size, b"\0")),
            from_text=_base64,
        )
    return _text(column, before)


def _text(
    column: Description, before: int, unpack: Callable[[bytes], bytes] | None = None
) -> Field:
    if column.charset is None:
        raise SchemaUnknown(f"the character set of column {column.name!r} is not known")
    if column.charset == charsets.BINARY:
        return Field(
            shown(column, "bytes"),
            length_bytes=before,
            convert=_base64 if unpack is None else lambda raw: _base64(unpack(raw)),
            from_text=_base64,
        )
    if charsets.is_utf8(column.charset) and unpack is None:
        return Field(
            shown(column, "string"),
            length_bytes=before,
            convert=_utf8,
            from_text=_utf8,
        )
    decode = charsets.decoder(column.charset)

    def convert(raw: bytes) -> str:
        try:
            return quote(decode(raw if unpack is None else unpack(raw)))
        except UnicodeDecodeError as error:
            raise BinlogUnreadable(
                f"column {column.name!r} holds bytes that are no {column.charset} text: {error}"
            ) from None

    return Field(
        shown(column, "string"),
        length_bytes=before,
        convert=convert,
        from_text=_utf8,
    )


def _utf8(raw: bytes) -> str:
    return quote(str(raw, "utf-8"))


def blob(column: Description, _style: Style) -> Field:
    return _text(column, column.wire.first)


def compressed(column: Description, _style: Style) -> Field:
    """Columns declared COMPRESSED: a byte (0: as it is; else method << 4 | length bytes), then zlib."""
    blob = column.wire.type == wire.BLOB_COMPRESSED
    return _text(column, column.wire.first if blob else length_bytes(column.wire), _uncompressed)


def _uncompressed(raw: bytes) -> bytes:
    if not raw:
        return b""
    if raw[0] == 0:
        return raw[1:]
    if raw[0] >> 4 != 8:
        raise BinlogUnreadable(f"a compressed column uses method {raw[0] >> 4}, which is not known")
    try:
        # A bit of the first byte says that zlib's own header was left away.
        return zlib.decompress(raw[1 + (raw[0] & 7) :], -15 if raw[0] & 8 else 15)
    except zlib.error as error:
        raise BinlogUnreadable(f"a compressed column is damaged: {error}") from None


def document(column: Description, _style: Style) -> Field:
    """MySQL's JSON: binary in the log, text in a snapshot; both become text without spaces."""
    return Field(
        shown(column, "string", "io.debezium.data.Json"),
        length_bytes=column.wire.first,
        convert=lambda raw: quote(json_binary.text(raw)),
        from_text=lambda text: quote(_SPACES.sub(lambda found: found[1] or "", text.decode())),
    )


# The server puts one space behind each comma and colon; what is in quotes stays.
_SPACES = re.compile(r'("(?:[^"\\]|\\.)*")|\s+')


def geometry(column: Description, _style: Style) -> Field:
    """Four bytes of SRID, then well-known binary."""
    shape = Column(
        column.name,
        (
            ("type", "struct"),
            (
                "fields",
                [
                    {"type": "bytes", "optional": False, "field": "wkb"},
                    {"type": "int32", "optional": True, "field": "srid"},
                ],
            ),
            ("name", "io.debezium.data.geometry.Geometry"),
            ("version", 1),
        ),
        column.nullable,
    )

    def convert(raw: bytes) -> str:
        srid = int.from_bytes(raw[:4], "little")
        return f'{{"wkb":{_base64(raw[4:])},"srid":{srid or "null"}}}'

    return Field(shape, length_bytes=column.wire.first, convert=convert, from_text=convert)


def _special(column: Description, before: int) -> Field:
    size = column.wire.first
    show = {"uuid": _uuid, "inet4": _inet4, "inet6": _inet6}[column.special]
    return Field(
        shown(column, "string", "io.debezium.data.Uuid" if column.special == "uuid" else None),
        length_bytes=before,
        convert=lambda raw: show(raw.ljust(size, b"\0")),
        from_text=lambda text: quote(text.decode()),
    )


def _uuid(raw: bytes) -> str:
    return f'"{uuid.UUID(bytes=raw)}"'


def _inet4(raw: bytes) -> str:
    return f'"{ipaddress.IPv4Address(raw)}"'


def _inet6(raw: bytes) -> str:
    """As the server writes it: addresses that hold one of version 4 end with that."""
    if raw[:10] == bytes(10) and (
        raw[10:12] == b"\xff\xff" or (raw[10:12] == b"\0\0" != raw[12:14])
    ):
        prefix = "::ffff:" if raw[10] else "::"
        return f'"{prefix}{ipaddress.IPv4Address(raw[12:])}"'
    return f'"{ipaddress.IPv6Address(raw)}"'
