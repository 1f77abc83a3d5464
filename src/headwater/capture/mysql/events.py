"""Binlog events: the common header and the small bodies; pure, called by `stream`.

| bytes | header field                       |
|-------|------------------------------------|
| 0–3   | seconds since 1970                 |
| 4     | type                               |
| 5–8   | server id                          |
| 9–12  | size, header and checksum included |
| 13–16 | file position of the next event    |
| 17–18 | flags                              |

With checksums the last four bytes are the CRC-32 of all before. Integers are little-endian. Any
bytes either parse or raise `BinlogUnreadable`.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import cramjam

from headwater.capture.errors import BinlogUnreadable
from headwater.capture.mysql.gtid import Gtid, SetGtid

HEADER = struct.Struct("<IBIIIH")
HEADER_BYTES = 19
CHECKSUM_BYTES = 4

QUERY, STOP, ROTATE = 2, 3, 4
INTVAR, RAND, USER_VAR = 5, 13, 14
FORMAT_DESCRIPTION, XID = 15, 16
BEGIN_LOAD_QUERY, EXECUTE_LOAD_QUERY, TABLE_MAP = 17, 18, 19
INCIDENT, HEARTBEAT, XA_PREPARE, HEARTBEAT_V2 = 26, 27, 38, 41
# MySQL's own; MariaDB's begin at 160.
IGNORABLE, ROWS_QUERY, SET_GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS = 28, 29, 33, 34, 35
TRANSACTION_CONTEXT, VIEW_CHANGE, PARTIAL_UPDATE, PAYLOAD, TAGGED_GTID = 36, 37, 39, 40, 42
WRITE_V1, UPDATE_V1, DELETE_V1 = 23, 24, 25
WRITE_V2, UPDATE_V2, DELETE_V2 = 30, 31, 32
ANNOTATE_ROWS, BINLOG_CHECKPOINT, GTID, GTID_LIST = 160, 161, 162, 163
START_ENCRYPTION, QUERY_COMPRESSED = 164, 165
WRITE_COMPRESSED_V1, UPDATE_COMPRESSED_V1, DELETE_COMPRESSED_V1 = 166, 167, 168
WRITE_COMPRESSED_V2, UPDATE_COMPRESSED_V2, DELETE_COMPRESSED_V2 = 169, 170, 171

# The server sets it on events that it made up for this connection and that are in no file.
FLAG_ARTIFICIAL = 0x20
# MySQL sets it on events that a reader may pass over if it does not know them.
FLAG_IGNORABLE = 0x80
PAYLOAD_BYTES_MAX = 256 << 20

GTID_STANDALONE, GTID_GROUP_COMMIT, GTID_DDL = 1, 2, 32
GTID_PREPARED_XA, GTID_COMPLETED_XA = 64, 128

_GTID = struct.Struct("<QIB")
_QUERY = struct.Struct("<IIBHH")

IGNORED = {
    BEGIN_LOAD_QUERY,
    *(STOP, INTVAR, RAND, USER_VAR, HEARTBEAT),
    *(HEARTBEAT_V2, ANNOTATE_ROWS, BINLOG_CHECKPOINT, GTID_LIST),
    START_ENCRYPTION,
    *(IGNORABLE, ROWS_QUERY, PREVIOUS_GTIDS),
    *(TRANSACTION_CONTEXT, VIEW_CHANGE),
}
_AGAIN = "then take the snapshot again (--resnapshot)"
REFUSED = {
    ANONYMOUS_GTID: (
        "a transaction in the binary log has no GTID, so a restart could not find its place",
        f"SET GLOBAL gtid_mode = ON (by its steps: OFF_PERMISSIVE, ON_PERMISSIVE), {_AGAIN}",
    ),
    TAGGED_GTID: (
        "a transaction in the binary log has a GTID with a tag, which is not read here",
        "leave gtid_next at AUTOMATIC without a tag; RESET BINARY LOGS AND GTIDS forgets the tags that the "
        f"server knows (and ends its replicas), {_AGAIN}",
    ),
}


class Query(NamedTuple):
    database: str
    statement: str
    error_code: int


class Format(NamedTuple):
    server_version: str
    has_checksums: bool

    @property
    def checksum_bytes(self) -> int:
        """At the end of each event."""
        return CHECKSUM_BYTES if self.has_checksums else 0


def damaged() -> BinlogUnreadable:
    """For an event whose checksum, its last four bytes, is not that of its other bytes."""
    return BinlogUnreadable(
        "An event of the binary log does not match its checksum: the file on the server is damaged.",
        hint="See the server's error log; purge what is damaged, take the snapshot again (--resnapshot).",
    )


def has_checksum(data: bytes, start: int, end: int) -> bool:
    """Whether the event's last four bytes are the checksum of all before."""
    body_end = end - CHECKSUM_BYTES
    found = int.from_bytes(data[body_end:end], "little")
    return zlib.crc32(data[start:body_end]) == found


def format_description(data: bytes, start: int, end: int) -> Format:
    """The version of the server that wrote the file, and whether its events end with checksums.

    `start` is that of the body. The event itself always carries the algorithm's byte and four
    bytes of checksum since MariaDB 5.3 and MySQL 5.6.
    """
    if end - start < 57 + 5:
        raise BinlogUnreadable("The format description of the binary log is cut short.")
    version, name, _, header_bytes = struct.unpack_from("<H50sIB", data, start)
    if version != 4 or header_bytes != HEADER_BYTES:
        raise BinlogUnreadable(
            f"Binary logs of version {version} are not known here, only version 4."
        )
    algorithm = data[end - 5]
    if algorithm not in (0, 1):
        raise BinlogUnreadable(
            f"The binary log uses checksum algorithm {algorithm}, which is not known."
        )
    return Format(name.rstrip(b"\0").decode("ascii", "replace"), algorithm == 1)


def rotate(data: bytes, start: int, end: int) -> tuple[str, int]:
    """Name of the next file and the position in it."""
    if end - start < 9:
        raise BinlogUnreadable("A rotate event of the binary log is cut short.")
    position = int.from_bytes(data[start : start + 8], "little")
    return data[start + 8 : end].decode("utf-8", "replace"), position


def gtid(data: bytes, start: int, end: int, server: int) -> tuple[Gtid, int]:
    """MariaDB's GTID event: the transaction's name and its flags."""
    if end - start < _GTID.size:
        raise BinlogUnreadable("A GTID event of the binary log is cut short.")
    sequence, domain, flags = _GTID.unpack_from(data, start)
    return Gtid(domain, server, sequence), flags


def set_gtid(data: bytes, start: int, end: int, server: int) -> SetGtid:
    """MySQL's GTID event: flags, the origin's UUID, the number; what follows is for its own replicas."""
    if end - start < 25:
        raise BinlogUnreadable("A GTID event of the binary log is cut short.")
    origin = str(uuid.UUID(bytes=data[start + 1 : start + 17]))
    return SetGtid(origin, int.from_bytes(data[start + 17 : start + 25], "little"), server)


def payload(data: bytes, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """The events of a compressed transaction of MySQL: (bytes, start of header, end), no checksums.

    Fields (type, length, value, all packed integers) up to a type 0, then the events:
    1 size, 2 compression (0 zstd, 255 none), 3 size when it is uncompressed.
    """
    fields: dict[int, int] = {}
    at = start
    while True:
        kind, at = packed_integer(data, at)
        if kind == 0:
            break
        length, at = packed_integer(data, at)
        fields[kind] = packed_integer(data, at)[0]
        at += length
    size = fields.get(1, end - at)
    if at + size > end:
        raise BinlogUnreadable("A compressed transaction of the binary log is cut short.")
    plain = _plain_payload(data[at : at + size], fields)
    at = 0
    while at < len(plain):
        size = HEADER.unpack_from(plain, at)[3] if at + HEADER_BYTES <= len(plain) else 0
        if size < HEADER_BYTES or at + size > len(plain):
            raise BinlogUnreadable("A compressed transaction of the binary log is damaged.")
        yield plain, at, at + size
        at += size


def _plain_payload(packed: bytes, fields: dict[int, int]) -> bytes:
    compression, size = fields.get(2, 255), fields.get(3, len(packed))
    if compression == 255:
        return packed
    if compression != 0 or size > PAYLOAD_BYTES_MAX:
        raise BinlogUnreadable(
            f"A transaction is compressed by method {compression} and has {size} bytes, which is not "
            "read here.",
            hint="SET GLOBAL binlog_transaction_compression = OFF, then take the snapshot again "
            "(--resnapshot)",
        )
    try:
        plain = bytes(cramjam.zstd.decompress(packed, output_len=size))
    except cramjam.DecompressionError as error:
        raise BinlogUnreadable(f"A compressed transaction is damaged: {error}.") from None
    if len(plain) != size:
        raise BinlogUnreadable("A compressed transaction has another length than it says.")
    return plain


def query(data: bytes, start: int, end: int) -> Query:
    """A statement: BEGIN, COMMIT, SAVEPOINT, DDL, or a change that was not logged as rows."""
    status_end, database_bytes, error = _query_parts(data, start, end)
    database_end = status_end + database_bytes
    statement = data[database_end + 1 : end].decode("utf-8", "surrogateescape")
    return Query(data[status_end:database_end].decode("utf-8", "replace"), statement, error)


def load_query(data: bytes, start: int, end: int) -> Query:
    """LOAD DATA, logged as a statement: a query with 13 bytes about the file behind its first part."""
    first = data[start : start + _QUERY.size] + data[start + _QUERY.size + 13 : end]
    return query(first, 0, len(first))


def compressed_query(data: bytes, start: int, end: int) -> Query:
    status_end, database_bytes, error = _query_parts(data, start, end)
    database_end = status_end + database_bytes
    statement = uncompress(data, database_end + 1, end).decode("utf-8", "surrogateescape")
    return Query(data[status_end:database_end].decode("utf-8", "replace"), statement, error)


def _query_parts(data: bytes, start: int, end: int) -> tuple[int, int, int]:
    if end - start < _QUERY.size:
        raise BinlogUnreadable("A query event of the binary log is cut short.")
    _, _, database_bytes, error, status_bytes = _QUERY.unpack_from(data, start)
    status_end = start + _QUERY.size + status_bytes
    if status_end + database_bytes + 1 > end:
        raise BinlogUnreadable("A query event of the binary log is cut short.")
    return status_end, database_bytes, error


def uncompress(data: bytes, start: int, end: int) -> bytes:
    """MariaDB's own framing of zlib: a byte 0x80 | algorithm << 4 | n, n bytes of length, the data."""
    if start >= end or data[start] & 0xF0 != 0x80 or not 1 <= data[start] & 7 <= 4:
        raise BinlogUnreadable("A compressed event of the binary log begins with an unknown byte.")
    length_bytes = data[start] & 7
    begin = start + 1 + length_bytes
    length = int.from_bytes(data[start + 1 : begin], "big")
    try:
        plain = zlib.decompress(memoryview(data)[begin:end], bufsize=max(length, 1))
    except zlib.error as error:
        raise BinlogUnreadable(
            f"A compressed event of the binary log is damaged: {error}."
        ) from None
    if len(plain) != length:
        raise BinlogUnreadable(
            "A compressed event of the binary log has another length than it says."
        )
    return plain


def packed_integer(data: bytes, at: int) -> tuple[int, int]:
    """A length-encoded integer and where the next thing begins."""
    first = data[at] if at < len(data) else 255
    if first < 251:
        return first, at + 1
    extra = {252: 2, 253: 3, 254: 8}.get(first)
    if extra is None or at + 1 + extra > len(data):
        raise BinlogUnreadable("A length in the binary log is damaged.")
    return int.from_bytes(data[at + 1 : at + 1 + extra], "little"), at + 1 + extra
