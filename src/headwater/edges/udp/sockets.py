"""A UDP socket as we want it, and what the kernel says that it had to throw away.

Linux counts, for each socket, the datagrams for which there was no room: SO_MEMINFO tells (since 4.12), and
the last column of /proc/net/udp. Elsewhere nobody knows, and None says so.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

from headwater.edges.bridges.contract import BridgeBroken

_SO_MEMINFO = 55
_DROPS_AT = 8
_WORDS = struct.Struct("9I")
_SO_RCVBUFFORCE = 33
_WRAP = 2**32


def listening(host: str, port: int, buffer_bytes: int) -> socket.socket:
    """Bound, not blocking, with as large a buffer as the kernel grants. Raises BridgeBroken."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        made = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BridgeBroken(f"cannot listen on {host}:{port}: {error.strerror}") from error
    try:
        made.setblocking(False)
        enlarge(made, buffer_bytes)
        made.bind(address)
    except OSError as error:
        made.close()
        raise BridgeBroken(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint="is the address this machine's, and the port free?",
        ) from error
    return made


def enlarge(made: socket.socket, buffer_bytes: int) -> None:
    """Beyond net.core.rmem_max where we may; `buffer_of` says what it has become."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    try:
        made.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, buffer_bytes)
    except OSError:
        pass  # needs CAP_NET_ADMIN, and Linux


def buffer_of(made: socket.socket) -> int:
    return made.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


def kernel_drops(made: socket.socket) -> int | None:
    """Since the socket was made, modulo 2**32; None: the system does not say."""
    try:
        words = made.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, _WORDS.size)
        if len(words) == _WORDS.size:
            return int(_WORDS.unpack(words)[_DROPS_AT])
    except OSError:
        pass
    return drops_in_proc(made)


def drops_in_proc(made: socket.socket) -> int | None:
    """The same from /proc/net/udp, where the socket is known by its inode."""
    name = "udp6" if made.family == socket.AF_INET6 else "udp"
    try:
        inode = str(os.fstat(made.fileno()).st_ino)
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            if words[9] == inode:
                return int(words[-1])
    except OSError:
        pass
    return None


class DropCount:
    """How many more each time that one looks; the kernel's counter begins again after 2**32."""

    def __init__(self, made: socket.socket) -> None:
        self._socket = made
        self._last = kernel_drops(made)
        self.total: int | None = 0 if self._last is not None else None

    def look(self) -> int:
        now = kernel_drops(self._socket)
        if now is None or self._last is None or self.total is None:
            return 0
        more = (now - self._last) % _WRAP
        self._last = now
        self.total += more
        return more
