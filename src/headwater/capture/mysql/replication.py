"""The binary log as the server sends it to a replica; called by `stream` and `snapshot`.

PyMySQL does the greeting; after the command to dump (`flavor`) its socket is read here, as much as there
is at once, and cut into events without copying them:

| bytes | of a packet                                                                            |
|-------|----------------------------------------------------------------------------------------|
| 0–2   | length; 0xFFFFFF means that the next packet goes on with the same event                |
| 3     | number of the packet                                                                   |
| 4     | 0 event, 0xFF error, 0xFE end (of the first packet of an event only)                   |
| 5–23  | the event's header: see `events`                                                       |

The server sends a heartbeat while it has nothing to say, so silence means a lost connection.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from typing import Protocol

from headwater.capture.errors import BinlogUnreadable, CaptureError, Gap, Interrupted
from headwater.capture.mysql import events
from headwater.capture.mysql.address import Address
from headwater.capture.mysql.connection import Connection
from headwater.capture.mysql.flavor import Reached

Frame = tuple[bytes, int, int, int, int, int, int, int]
"""An event: bytes, where its header begins and where it ends; type, seconds, server, next position, flags."""

SILENCE_S = 20.0
RECEIVE_BYTES = 1 << 20
_PACKET_MAX = 0xFFFFFF
_HEADS = struct.Struct("<HBBBIBIIIH")  # of packet and event in one: this is the hot loop


class Dump(Protocol):
    """How a server is asked for its log: see `flavor`."""

    product: str

    def dump(self, connection: Connection, after: Reached, server_id: int) -> socket.socket: ...


class BinlogStream:
    """Events after a position, from one connection."""

    def __init__(
        self,
        flavor: Dump,
        address: Address,
        after: Reached,
        server_id: int,
        silence_s: float = SILENCE_S,
    ) -> None:
        """`silence_s`: so long the server may say nothing; it is asked to say something four times."""
        self._server = f"the {flavor.product} server"
        self._silence_s = silence_s
        self._connection = Connection(address)
        self._rest = b""
        self._large: list[bytes] = []
        self._heard = time.monotonic()
        try:
            # The checksum is asked for as the files have it, and compared: it also guards the disk.
            # MySQL says source where it said master before; both are heard.
            for word in ("master", "source"):
                self._connection.execute(
                    f"SET @{word}_binlog_checksum = @@global.binlog_checksum, "
                    f"@{word}_heartbeat_period = %s",
                    [int(silence_s / 4 * 1e9)],
                )
            self._socket = flavor.dump(self._connection, after, server_id)
        except BaseException:
            self._connection.close()
            raise

    def waiting(self) -> bool:
        """Whether more is there to be read without waiting."""
        pending = getattr(self._socket, "pending", None)
        if pending is not None and pending():
            return True
        waiting = select.poll()
        waiting.register(self._socket, select.POLLIN)
        return bool(waiting.poll(0))

    def read(self, timeout: float) -> list[Frame]:
        """The events that are there, or that come within the time; none if none came."""
        needed = self._needed()
        parts, size = [self._rest], len(self._rest)
        deadline = time.monotonic() + timeout
        while size < needed:
            part = self._receive(max(deadline - time.monotonic(), 0.001))
            if part is None:
                break
            parts.append(part)
            size += len(part)
            if needed <= 4 and size >= 4:
                self._rest = b"".join(parts)
                parts, needed = [self._rest], self._needed()
        self._rest = b"".join(parts) if len(parts) > 1 else parts[0]
        return self._split() if size >= needed else []

    def _needed(self) -> int:
        """Bytes until the first packet is whole."""
        if len(self._rest) < 4:
            return 4
        return 4 + int.from_bytes(self._rest[:3], "little")

    def _receive(self, timeout: float) -> bytes | None:
        try:
            self._socket.settimeout(timeout)
            data: bytes = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            if time.monotonic() - self._heard > self._silence_s:
                raise Interrupted(f"{self._server} has fallen silent") from None
            return None
        except OSError as error:
            raise Interrupted(f"the connection to {self._server} was lost: {error}") from None
        if not data:
            raise Interrupted(f"{self._server} closed the connection")
        self._heard = time.monotonic()
        return data

    def _split(self) -> list[Frame]:
        data = self._rest
        frames: list[Frame] = []
        add, heads = frames.append, _HEADS.unpack_from
        at, size = 0, len(data)
        while size - at >= _HEADS.size:
            low, high, _, status, seconds, kind, server, event_bytes, following, flags = heads(
                data, at
            )
            end = at + 4 + low + (high << 16)
            if end > size:
                break
            if end - at == event_bytes + 5 and not status and not self._large:
                add((data, at + 5, end, kind, seconds, server, following, flags))
            else:
                self._unusual(data, at, end, frames)
            at = end
        while size - at >= 4 and at + 4 + int.from_bytes(data[at : at + 3], "little") <= size:
            # Shorter than an event: an error, an end, or the last piece of a large event.
            end = at + 4 + int.from_bytes(data[at : at + 3], "little")
            self._unusual(data, at, end, frames)
            at = end
        self._rest = data[at:]
        return frames

    def _unusual(self, data: bytes, at: int, end: int, frames: list[Frame]) -> None:
        if end - at - 4 < _PACKET_MAX and not self._large:
            self._refused(data[at + 4 : end])
        self._large.append(data[at + 4 : end])
        if end - at - 4 < _PACKET_MAX:
            whole = b"".join(self._large)
            self._large = []
            if whole[0]:
                self._refused(whole)
            seconds, kind, server, size, following, flags = events.HEADER.unpack_from(whole, 1)
            if size != len(whole) - 1:
                raise BinlogUnreadable("an event of the binary log has another size than it says")
            frames.append((whole, 1, len(whole), kind, seconds, server, following, flags))

    def _refused(self, payload: bytes) -> None:
        if not payload or payload[0] == 0:
            raise BinlogUnreadable("an event of the binary log has another size than it says")
        if payload[0] == 0xFE:
            raise Interrupted(f"{self._server} ended the binary log, as it does when it shuts down")
        number = int.from_bytes(payload[1:3], "little")
        said = payload[9:].decode("utf-8", "replace")
        if number == 1236 and "same server" in said:
            raise CaptureError(
                f"another replica uses the same server id: {said}",
                hint="give this capture its own with server_id = …",
            )
        if number == 1236:
            raise Gap(
                f"{self._server} cannot go on from the stored position: {said}",
                hint="the changes in between are lost to capture. Take the snapshot again "
                "(--resnapshot), and keep binary logs longer: "
                "SET GLOBAL binlog_expire_logs_seconds = 604800",
            )
        raise Interrupted(f"{self._server} ended the binary log: {said} ({number})")

    def close(self) -> None:
        self._connection.close()
