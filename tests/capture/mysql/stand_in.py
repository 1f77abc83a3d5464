"""MySQL's side of a conversation, as its documentation has it: greeting, canned answers, a binary log.

No MySQL server can be had where these tests run. This one knows nothing: it accepts every login, answers
statements from a list, and sends the events that it was given to whoever asks for the binary log. It
shows that what headwater says is what the documentation asks for, and not that a real server agrees.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
import uuid
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from headwater.capture.mysql import events

ORIGIN = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
_CAPABILITIES = (
    0xFFFFFFFF & ~(1 << 24) & ~(1 << 11) & ~(1 << 5)
)  # no DEPRECATE_EOF, TLS, compression
_QUIT, _QUERY, _DUMP_FILE, _REGISTER, _DUMP = 0x01, 0x03, 0x12, 0x15, 0x1E

Answers = Sequence[tuple[str, list[tuple[Any, ...]]]]


class MySQLStandIn:
    """Listens on a port of its own; `asked` has every statement, `dumps` every request for the log."""

    def __init__(self, answers: Answers, log: Iterable[bytes]) -> None:
        self._answers = answers
        self._log = list(log)
        self.asked: list[str] = []
        self.dumps: list[bytes] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()
        for one in self._open:
            one.close()

    def _accept(self) -> None:
        while True:
            try:
                one, _ = self._listening.accept()
            except OSError:
                return
            self._open.append(one)
            threading.Thread(target=self._serve, args=(one,), daemon=True).start()

    def _serve(self, one: socket.socket) -> None:
        try:
            one.sendall(_packet(0, _greeting()))
            _receive(one)
            one.sendall(_packet(2, _OK))
            while (payload := _receive(one))[0] != _QUIT:
                self._command(one, payload)
        except (OSError, EOFError):
            pass

    def _command(self, one: socket.socket, payload: bytes) -> None:
        if payload[0] == _QUERY:
            statement = payload[1:].decode()
            self.asked.append(statement)
            one.sendall(self._answer(statement))
        elif payload[0] == _DUMP_FILE:
            one.sendall(_packet(1, b"\0" + format_description()))
        elif payload[0] == _DUMP:
            self.dumps.append(payload[1:])
            for number, event in enumerate(self._log, 1):
                one.sendall(_packet(number & 0xFF, b"\0" + event))
        else:
            one.sendall(_packet(1, _OK))

    def _answer(self, statement: str) -> bytes:
        for pattern, rows in self._answers:
            if re.search(pattern, statement):
                return _result(rows)
        if statement.startswith(("SET", "START", "FLUSH", "UNLOCK", "XA")):
            return _packet(1, _OK) if statement != "XA RECOVER" else _result([])
        return _packet(
            1, b"\xff" + struct.pack("<H", 1064) + b"#42000not known: " + statement.encode()
        )


_OK = b"\0\0\0\x02\0\0\0"
_EOF = b"\xfe\0\0\x02\0"


def _packet(number: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([number & 0xFF]) + payload


def _receive(one: socket.socket) -> bytes:
    head = _exactly(one, 4)
    return _exactly(one, int.from_bytes(head[:3], "little"))


def _exactly(one: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = one.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def _greeting() -> bytes:
    low, high = _CAPABILITIES & 0xFFFF, _CAPABILITIES >> 16
    head = b"\x0a8.0.36\0" + struct.pack("<I", 7) + b"12345678\0"
    return (
        head
        + struct.pack("<HBHHB", low, 45, 2, high, 21)
        + bytes(10)
        + (b"123456789012\0" + b"mysql_native_password\0")
    )


def _text(value: Any) -> bytes:
    if value is None:
        return b"\xfb"
    raw = value if isinstance(value, bytes) else str(value).encode()
    return packed(len(raw)) + raw


def _result(rows: list[tuple[Any, ...]]) -> bytes:
    width = len(rows[0]) if rows else 1
    column = b"\x03def\0\0\0\x01c\x01c\x0c" + struct.pack("<HIBHBH", 45, 1024, 253, 0, 0, 0)
    payloads = [bytes([width]), *[column] * width, _EOF]
    payloads += [b"".join(map(_text, row)) for row in rows]
    return b"".join(_packet(n, one) for n, one in enumerate([*payloads, _EOF], 1))


# ── events, by https://dev.mysql.com/doc/dev/mysql-server/latest/ ─────────────────────────────────


def packed(number: int) -> bytes:
    if number < 251:
        return bytes([number])
    return (
        b"\xfc" + struct.pack("<H", number)
        if number < 1 << 16
        else (b"\xfe" + struct.pack("<Q", number))
    )


def event(kind: int, body: bytes, *, flags: int = 0, checksum: bool = True, at: int = 0) -> bytes:
    size = 19 + len(body) + (4 if checksum else 0)
    head = struct.pack("<IBIIIH", 1_700_000_000, kind, 5, size, at + size, flags)
    data = head + body
    return data + struct.pack("<I", zlib.crc32(data)) if checksum else data


def format_description() -> bytes:
    body = struct.pack("<H50sIB", 4, b"8.0.36", 0, 19) + bytes(41) + b"\x01"
    return event(events.FORMAT_DESCRIPTION, body)


def rotate(file: str, pos: int = 4) -> bytes:
    body = struct.pack("<Q", pos) + file.encode()
    return event(events.ROTATE, body, flags=events.FLAG_ARTIFICIAL)


def gtid(number: int, origin: str = ORIGIN) -> bytes:
    body = b"\x01" + uuid.UUID(origin).bytes + struct.pack("<q", number)
    return event(events.SET_GTID, body + b"\x02" + struct.pack("<qq", 0, 1) + bytes(15))


def query(statement: str, database: str = "shop", *, checksum: bool = True) -> bytes:
    body = struct.pack("<IIBHH", 9, 0, len(database), 0, 0) + database.encode() + b"\0"
    return event(events.QUERY, body + statement.encode(), checksum=checksum)


def xid(*, checksum: bool = True) -> bytes:
    return event(events.XID, struct.pack("<Q", 1), checksum=checksum)


def table_map(described: bytes, *, checksum: bool = True) -> bytes:
    return event(events.TABLE_MAP, b"\x2a\0\0\0\0\0\x01\0" + described, checksum=checksum)


def rows(kind: int, count: int, images: bytes, *, checksum: bool = True) -> bytes:
    """Of version 2, all columns present."""
    bitmap = ((1 << count) - 1).to_bytes((count + 7) // 8, "little")
    bitmaps = bitmap * 2 if kind == events.UPDATE_V2 else bitmap
    head = b"\x2a\0\0\0\0\0\x01\0\x02\0" + bytes([count]) + bitmaps
    return event(kind, head + images, checksum=checksum)


def payload(inner: bytes, compressed: bytes, method: int) -> bytes:
    fields = b""
    for kind, number in ((1, len(compressed)), (2, method), (3, len(inner))):
        value = packed(number)
        fields += bytes([kind, len(value)]) + value
    return event(events.PAYLOAD, fields + b"\0" + compressed)
