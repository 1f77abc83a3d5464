"""MySQL's JSON columns as the binary log has them: a tree with offsets; pure, called by `texts`.

| byte | type of a value                | its bytes                                                  |
|------|--------------------------------|------------------------------------------------------------|
| 0, 1 | object, small and large        | count, size, keys (offset, length), values (type, offset)  |
| 2, 3 | array, small and large         | count, size, values (type, offset)                         |
| 4    | literal                        | 0 null, 1 true, 2 false                                    |
| 5–A  | int16 uint16 int32 uint32 int64 uint64 | little-endian                                      |
| B    | double                         | 8 bytes                                                    |
| C    | text                           | length (7 bits a byte, low ones first), UTF-8              |
| F    | any other type of a column     | wire type, length as above, bytes                          |

Counts, sizes and offsets have two bytes in small trees and four in large ones; offsets count from the
tree's first byte. Small values (literals, 16 bits; in large trees 32 bits) stand in place of their
offset. The text that is made has no spaces, and the server's order of keys. Any bytes either give a
text or raise `BinlogUnreadable`.
"""

from __future__ import annotations

import struct
from base64 import b64encode

from headwater.capture.envelope import quote
from headwater.capture.errors import BinlogUnreadable
from headwater.capture.mysql import numbers, temporal
from headwater.capture.mysql import table_map as wire

_LITERALS = {0: "null", 1: "true", 2: "false"}
_INTEGERS = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}
_DOUBLE, _TEXT, _OPAQUE = 11, 12, 15
DEPTH_MAX = 100  # the server's own limit


def text(data: bytes) -> str:
    """The document as JSON text."""
    if not data:
        return "null"  # what a server leaves of a document that was never set
    try:
        return _value(data[0], data[1:], 0)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise BinlogUnreadable(f"a JSON value in the binary log is damaged: {error}") from None


def _value(kind: int, data: bytes, depth: int) -> str:
    if kind <= 3:
        return _tree(kind, data, depth)
    if kind == 4:
        return _LITERALS[data[0]] if data[0] in _LITERALS else _unknown(data[0])
    if kind in _INTEGERS:
        return str(struct.unpack_from(_INTEGERS[kind], data)[0])
    if kind == _DOUBLE:
        return numbers.server_double(struct.unpack_from("<d", data)[0])
    if kind == _TEXT:
        return quote(_counted(data, 0).decode("utf-8"))
    if kind == _OPAQUE:
        return _opaque(data[0], _counted(data, 1))
    return _unknown(kind)


def _unknown(number: int) -> str:
    raise ValueError(f"it has the type {number}")


def _tree(kind: int, data: bytes, depth: int) -> str:
    if depth >= DEPTH_MAX:
        raise ValueError("it is nested too deeply")
    width = 4 if kind & 1 else 2
    code = "<I" if width == 4 else "<H"
    count, size = struct.unpack_from(code, data)[0], struct.unpack_from(code, data, width)[0]
    if size > len(data):
        raise ValueError("it is cut short")
    data = data[:size]
    at = 2 * width
    keys: list[str] = []
    if kind <= 1:
        for _ in range(count):
            offset = struct.unpack_from(code, data, at)[0]
            length = struct.unpack_from("<H", data, at + width)[0]
            keys.append(quote(_exactly(data, offset, length).decode("utf-8")))
            at += width + 2
    values = []
    for _ in range(count):
        inner = data[at]
        if inner in (4, 5, 6) or (width == 4 and inner in (7, 8)):
            values.append(_value(inner, data[at + 1 : at + 1 + width], depth + 1))
        else:
            offset = struct.unpack_from(code, data, at + 1)[0]
            if not at < offset < size:
                raise ValueError("an offset points outside of it")
            values.append(_value(inner, data[offset:], depth + 1))
        at += 1 + width
    if kind <= 1:
        pairs = zip(keys, values, strict=True)
        return f"{{{','.join(f'{key}:{value}' for key, value in pairs)}}}"
    return f"[{','.join(values)}]"


def _exactly(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise ValueError("it is cut short")
    return data[at : at + length]


def _counted(data: bytes, at: int) -> bytes:
    """Bytes behind their length, which has seven bits in each byte."""
    length = shift = 0
    while True:
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return _exactly(data, at, length)
        if shift > 28:
            raise ValueError("a length has too many bytes")


def _opaque(kind: int, data: bytes) -> str:
    """A DECIMAL is a number; dates and times are text, as the server shows them; others base64."""
    if kind == wire.NEWDECIMAL:
        precision, scale = data[0], data[1]
        if len(data) - 2 != numbers.decimal_bytes(precision, scale):
            raise ValueError("a decimal has another length than it says")
        return numbers.decimals(precision, scale)(data[2:])
    if kind in (wire.DATE, wire.DATETIME, wire.TIMESTAMP, wire.TIME):
        return f'"{temporal.packed_text(kind == wire.TIME, kind == wire.DATE, data)}"'
    return f'"base64:type{kind}:{b64encode(data).decode()}"'
