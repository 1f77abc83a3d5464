"""TLS as a client does it, by hand: so that a test can also stop in the middle."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import uvloop

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
TIMEOUT_S = 100.0


def trusting(authority: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority)
    return context


def connect(bootstrap: str, source: str = "127.0.0.1") -> socket.socket:
    """`source`: the address to come from; every 127.x.y.z is this machine."""
    host, _, port = bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), TIMEOUT_S, source_address=(source, 0))


def first_message(context: ssl.SSLContext) -> bytes:
    """ClientHello."""
    outgoing = ssl.MemoryBIO()
    begun = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with contextlib.suppress(ssl.SSLWantReadError):
        begun.do_handshake()
    return outgoing.read()


@contextlib.contextmanager
def greeted(
    context: ssl.SSLContext, bootstrap: str, source: str = "127.0.0.1"
) -> Iterator[ssl.SSLSocket]:
    """A connection whose handshake is done."""
    with (
        connect(bootstrap, source) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as tls,
    ):
        yield tls


def is_closed(sock: socket.socket) -> bool:
    """By the server; waits until it is, or has sent something that is no alert."""
    try:
        while data := sock.recv(4096):
            if data[:1] not in (b"\x15", b"\x16"):
                return False
    except ConnectionError:
        pass
    return True
