"""What clients of changefeeds send by WebSocket: nothing is asked of them, so little is taken from them."""

from __future__ import annotations

import base64
import os
import socket
import struct
import zlib
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from headwater.client.log import Log
from headwater.project.websocket_protocol import LISTENERS
from tests.compat.waiting import until
from tests.edges.feeds.clients import put
from tests.edges.running import Running, edges

pytestmark = pytest.mark.timeout(900)
FLOOD_BYTES = 64 * 1024**2
"""Far more than is ever taken, so that a server which goes on reading fails the test and does not hang it."""


def opened(running: Running, path: str) -> socket.socket:
    """A WebSocket by hand, that may send packed frames."""
    parts = urlsplit(running.url)
    made = socket.create_connection((parts.hostname, parts.port), timeout=60)
    key = base64.b64encode(os.urandom(16)).decode()
    made.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {key}\r\n"
        "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n".encode()
    )
    head = b""
    while b"\r\n\r\n" not in head:
        head += made.recv(4096)
    assert b" 101 " in head
    return made


def packed(size: int) -> bytes:
    """One masked frame that unpacks to so many zeros."""
    packing = zlib.compressobj(9, zlib.DEFLATED, -12)
    data = (packing.compress(bytes(size)) + packing.flush(zlib.Z_SYNC_FLUSH))[:-4]
    return bytes([0xC2, 0x80 | 126]) + struct.pack(">H", len(data)) + bytes(4) + data


def wait_for_record(client: ClientConnection) -> None:
    until(lambda: '{"n": 1}' in str(client.recv(60)), "the record, behind heartbeats")


def flood(sender: socket.socket, frames: bytes) -> None:
    for _ in range(FLOOD_BYTES // len(frames)):
        sender.sendall(frames)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(packed(1024**2 - 100), id="large when it is unpacked"),
        pytest.param(packed(1000), id="small when it is unpacked"),
        pytest.param(bytes([0x89, 0x80, 0, 0, 0, 0]), id="pings"),
        pytest.param(bytes([0x81, 0x80, 0, 0, 0, 0]), id="empty texts"),
    ],
)
def test_whoever_floods_a_changefeed_is_cut_off_and_the_others_go_on(
    log: Log, topic: Callable[..., str], frame: bytes
):
    name = topic()
    with edges(log.bootstrap) as running, connect(f"ws{running.url[4:]}/topics/{name}") as other:
        with opened(running, f"/topics/{name}") as sender, pytest.raises(ConnectionError):
            flood(sender, frame * (256 * 1024 // len(frame)))
        put(log, name, {"n": 1})
        wait_for_record(other)
        assert httpx.get(f"{running.url}/healthz", timeout=60).status_code == 200


def test_whatever_is_written_once_a_client_is_connected_reaches_it(
    log: Log, topic: Callable[..., str]
):
    with edges(log.bootstrap) as running:
        for _ in range(5):
            name = topic()  # that nobody has followed yet: the feed is begun for this client
            with connect(f"ws{running.url[4:]}/topics/{name}") as client:
                put(log, name, {"n": 1})
                wait_for_record(client)


def test_a_client_that_only_says_that_it_is_there_is_not_cut_off(
    log: Log, topic: Callable[..., str]
):
    name = topic()
    with edges(log.bootstrap) as running, connect(f"ws{running.url[4:]}/topics/{name}") as socket:
        for _ in range(100):
            assert socket.ping().wait(60)
            socket.send("still here")
        put(log, name, {"n": 1})
        wait_for_record(socket)


def test_a_message_that_is_large_when_it_is_unpacked_ends_the_connection(
    log: Log, topic: Callable[..., str]
):
    name = topic()
    with edges(log.bootstrap) as running, connect(f"ws{running.url[4:]}/topics/{name}") as socket:
        socket.send(bytes(LISTENERS.message_bytes + 1))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(60)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
