"""What a client says by TLS, a record at a time. `tls_session` has a `Reader` when the handshake is done.

    type 1 │ version 2 │ length 2 │ length bytes      RFC 8446, 5.1; RFC 5246, 6.2.1

What a record is about is encrypted, and OpenSSL goes on by itself behind one without data: how many such
there were is the number that it was handed, less those that it gave data of. Large ones, which padding may
make of any, are handed to it together: a read of the socket holds few of them. What must hold: a client that
sends records without data (new keys, mostly: each costs as much as many with data, and is answered) is
dropped before OpenSSL has seen more than USELESS_MAX of them and those of one read; and who sends many small
ones gets no more of a turn than `turns` allows, beyond the FEW that a read of whole ones has.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from headwater.broker.security.tls_session import TlsSession
    from headwater.broker.security.turns import Turns

logger = logging.getLogger("headwater.security")

READ_BYTES = 64 * 1024
HEAD_BYTES = 5
LARGE_BYTES = 4096
FEW = 5
USELESS_MAX = 32
"""Records without data. A library asks for new keys after millions of records."""
USEFUL_MIN = 16
"""So many with data make up for one without."""


class Records:
    """Of one connection, from a record's first byte on."""

    __slots__ = ("_head", "_missing", "ended")

    def __init__(self) -> None:
        self._head = b""
        """Of a record whose length is not yet known."""
        self._missing = 0
        self.ended = 0
        """How many have, since somebody set it to 0."""

    @property
    def is_whole(self) -> bool:
        """Whether the last bytes were the last of a record."""
        return not (self._missing or self._head)

    def cut(self, data: memoryview) -> int:
        """How many of the next bytes belong to one record: all of it, or of what there is."""
        begin = 0
        if not self._missing:
            begin = HEAD_BYTES - len(self._head)
            head = self._head + bytes(data[:begin])
            if len(head) < HEAD_BYTES:
                self._head = head
                return len(data)
            self._head = b""
            self._missing = head[3] << 8 | head[4]
        end = min(begin + self._missing, len(data))
        self._missing -= end - begin
        self.ended += not self._missing
        return end

    def stretch(self, data: memoryview) -> int:
        """The same, with the large ones that come behind a large one, or behind the rest of one."""
        is_rest = not self.is_whole
        end = self.cut(data)
        if is_rest or end >= LARGE_BYTES:
            while (
                len(data) - end >= HEAD_BYTES and data[end + 3] << 8 | data[end + 4] >= LARGE_BYTES
            ):
                end += self.cut(data[end:])
        return end


class Reader:
    """Hands on what is in the records, as far as it is wanted."""

    def __init__(
        self, session: TlsSession, inner: ssl.SSLObject, incoming: ssl.MemoryBIO, turns: Turns
    ) -> None:
        """`incoming`, which `inner` reads, is empty."""
        self._session, self._inner, self._incoming = session, inner, incoming
        self._turns = turns
        self._records = Records()
        self._waiting = bytearray()
        """What OpenSSL has not got yet: a read of the socket at most."""
        self._is_dry = False
        """OpenSSL has just said that it needs more."""
        self._useful = 0
        """Records that gave data, of those that have ended."""
        self._debt = 0
        """USEFUL_MIN for each record without data, less one for each with."""

    def take(self, data: memoryview) -> None:
        """What has come, behind what came before. Raises ssl.SSLError."""
        if self._waiting:
            self._waiting += data
            data, self._waiting = memoryview(self._waiting), bytearray()
        if self._inner.pending() or self._incoming.pending:
            self._hand_on()
        done = 0
        while data and self._session.is_wanted():
            if done >= FEW and not self._turns.has_time():
                self._turns.wait(self._session)
                break
            done += 1
            count = self._records.stretch(data)
            self._incoming.write(data[:count])
            data = data[count:]
            self._hand_on()
        if data and not self._session.is_closing():
            self._waiting += data

    def _hand_on(self) -> None:
        """What OpenSSL makes of what it has."""
        while self._session.is_wanted():
            try:
                count = self._read()
            except ssl.SSLWantReadError:
                break
            if not count:
                self._session.eof_received()
                self._session.close()
                break
            if self._is_dry or not (self._inner.pending() or self._incoming.pending):
                break
        if not (self._inner.pending() or self._incoming.pending or self._session.is_closing()):
            self._settle()

    def _read(self) -> int:
        behind = self._session.get_protocol()
        if isinstance(behind, asyncio.BufferedProtocol):
            count = self._fill(memoryview(behind.get_buffer(-1)))
            if count:
                behind.buffer_updated(count)
            return count
        is_next = not self._inner.pending()
        data = self._inner.read(READ_BYTES)
        if data:
            self._useful += is_next
            cast(asyncio.Protocol, behind).data_received(data)
        return len(data)

    def _fill(self, view: memoryview) -> int:
        """With as many records as there are, and have room."""
        filled, self._is_dry = 0, False
        try:
            while filled < len(view):
                rest, is_next = cast(bytearray, view[filled:]), not self._inner.pending()
                count = cast(int, self._inner.read(len(rest), rest))
                if not count:
                    break
                filled += count
                self._useful += is_next
        except ssl.SSLWantReadError:
            self._is_dry = True
            if not filled:
                raise
        return filled

    def _settle(self) -> None:
        """OpenSSL has seen all that have ended."""
        useless = self._records.ended - self._useful
        self._debt = max(self._debt - self._useful, 0) + USEFUL_MIN * useless
        self._records.ended = self._useful = 0
        if self._debt > USELESS_MAX * USEFUL_MIN:
            host = self._session.host
            logger.info("closing the connection of %s: its TLS records hold no data", host)
            self._session.abort()
