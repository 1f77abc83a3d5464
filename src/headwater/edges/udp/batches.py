"""Many datagrams with one call: Linux's recvmmsg, or a loop of recvfrom where there is none.

One call per datagram would give up Python's lock and wait for it again each time: beside a busy event loop
that is 5 ms for each datagram instead of 5 ms for a thousand.

    slots     DATAGRAM_BYTES each, in one anonymous map: pages that no datagram reaches take no memory
    names     the sender of each, as the kernel writes it (sockaddr), NAME_BYTES each
    headers   struct mmsghdr each, which point into both
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import socket
import sys
from typing import Any

BATCH = 1024
DATAGRAM_BYTES = 65_536
NAME_BYTES = 28
"""sockaddr_in6; sockaddr_in has 16."""
Datagram = tuple[bytes, bytes]
"""What was sent, and by whom: `host_of` reads it."""


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Message(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint),
        ("vectors", ctypes.POINTER(_Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class _Header(ctypes.Structure):
    _fields_ = (("message", _Message), ("length", ctypes.c_uint))


def host_of(sender: bytes) -> str:
    """The address without the port."""
    if len(sender) == NAME_BYTES and int.from_bytes(sender[:2], sys.byteorder) == socket.AF_INET6:
        return socket.inet_ntop(socket.AF_INET6, sender[8:24])
    if int.from_bytes(sender[:2], sys.byteorder) == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, sender[4:8])
    return sender.decode(errors="replace")


def port_of(sender: bytes) -> int:
    return int.from_bytes(sender[2:4], "big")


class Batches:
    """Reads one socket, which must not block."""

    def __init__(self, made: socket.socket) -> None:
        self._socket = made
        self._call: Any = getattr(ctypes.CDLL(None, use_errno=True), "recvmmsg", None)
        if self._call is not None:
            self._prepare()

    def read(self) -> list[Datagram]:
        """Up to BATCH that are there; empty: none is."""
        return self._read_many() if self._call is not None else read_each(self._socket)

    def _prepare(self) -> None:
        self._slots = mmap.mmap(-1, BATCH * DATAGRAM_BYTES)
        self._names = ctypes.create_string_buffer(BATCH * NAME_BYTES)
        self._vectors = (_Vector * BATCH)()
        self._headers = (_Header * BATCH)()
        pin = (ctypes.c_char * 1).from_buffer(self._slots)
        slots, names = ctypes.addressof(pin), ctypes.addressof(self._names)
        del pin  # the map must be free to be closed
        for number in range(BATCH):
            vector, message = self._vectors[number], self._headers[number].message
            vector.base, vector.length = slots + number * DATAGRAM_BYTES, DATAGRAM_BYTES
            message.name, message.name_length = names + number * NAME_BYTES, NAME_BYTES
            message.vectors, message.vector_count = ctypes.pointer(vector), 1
        # The length of each, read in one go: attributes of ctypes cost more than the system call.
        words = memoryview(self._headers).cast("B").cast("I")
        self._lengths = words[_Header.length.offset // 4 :: ctypes.sizeof(_Header) // 4]

    def _read_many(self) -> list[Datagram]:
        count = self._call(self._socket.fileno(), self._headers, BATCH, socket.MSG_DONTWAIT, None)
        if count < 0:
            error = ctypes.get_errno()
            if error in (errno.EAGAIN, errno.EINTR, errno.ECONNREFUSED):
                return []
            raise OSError(error, os.strerror(error))
        slots, names = self._slots, self._names.raw
        return [
            (
                slots[number * DATAGRAM_BYTES : number * DATAGRAM_BYTES + length],
                names[number * NAME_BYTES : (number + 1) * NAME_BYTES],
            )
            for number, length in enumerate(self._lengths[:count].tolist())
        ]


def read_each(made: socket.socket) -> list[Datagram]:
    found: list[Datagram] = []
    try:
        while len(found) < BATCH:
            datagram, sender = made.recvfrom(DATAGRAM_BYTES)
            found.append((datagram, _as_the_kernel_writes_it(made.family, sender)))
    except (BlockingIOError, ConnectionRefusedError):
        pass
    return found


def _as_the_kernel_writes_it(family: int, sender: Any) -> bytes:
    head = int(family).to_bytes(2, sys.byteorder) + int(sender[1]).to_bytes(2, "big")
    if family == socket.AF_INET6:
        host = sender[0].partition("%")[0]
        return head + bytes(4) + socket.inet_pton(socket.AF_INET6, host) + bytes(4)
    return (head + socket.inet_aton(sender[0])).ljust(NAME_BYTES, b"\0")
