"""Large transactions that the server sends before they end (protocol 2), held until it is known how.

Called by `stream`. Each has a spool: in memory at first, in a temporary file when it grows. A rolled
back savepoint drops the changes of its subtransaction; an abort drops everything.

    spool: per message  xid u32, lsn i64, length u32, then the message without its xid
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from struct import Struct
from typing import IO

_ENTRY = Struct(">IqI")
MEMORY_BYTES_MAX = 8 << 20
"""Per transaction; the server streams only those above its logical_decoding_work_mem."""


class Spool:
    """One transaction that has not ended."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.SpooledTemporaryFile(MEMORY_BYTES_MAX)  # noqa: SIM115
        self._dropped: set[int] = set()
        self.messages = 0

    def add(self, xid: int, lsn: int, message: bytes) -> None:
        self._file.write(_ENTRY.pack(xid, lsn, len(message)) + message)
        self.messages += 1

    def drop(self, xid: int) -> None:
        """A subtransaction was rolled back."""
        self._dropped.add(xid)

    def replay(self) -> Iterator[tuple[int, bytes]]:
        """What is left, in the order of the log."""
        self._file.seek(0)
        while header := self._file.read(_ENTRY.size):
            xid, lsn, length = _ENTRY.unpack(header)
            message = self._file.read(length)
            if xid not in self._dropped:
                yield lsn, message

    def close(self) -> None:
        self._file.close()


class Streamed:
    """All of them, by the number of the whole transaction."""

    def __init__(self) -> None:
        self._spools: dict[int, Spool] = {}
        self.current: Spool | None = None
        """Between stream start and stream stop."""

    def start(self, xid: int) -> None:
        if xid not in self._spools:
            self._spools[xid] = Spool()
        self.current = self._spools[xid]

    def stop(self) -> None:
        self.current = None

    def abort(self, xid: int, subxid: int) -> None:
        if xid == subxid:
            spool = self._spools.pop(xid, None)
            if spool is not None:
                spool.close()
        elif xid in self._spools:
            self._spools[xid].drop(subxid)

    def pop(self, xid: int) -> Spool:
        """The transaction was committed."""
        return self._spools.pop(xid, None) or Spool()

    def close(self) -> None:
        for spool in self._spools.values():
            spool.close()
        self._spools.clear()
