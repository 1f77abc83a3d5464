"""The loop over the server's messages: batches out, keep-alives answered.

Called by `source`. A batch is handed over when it has enough bytes, or when nothing more is here: while
the log makes one durable, the next gathers in the socket, so batches grow with the load; and after a large
one, some more time is given to the next.

Large transactions that the server sends before they end (protocol 2), held until it is known how.

Each has a spool: in memory at first, in a temporary file when it grows. A rolled
back savepoint drops the changes of its subtransaction; an abort drops everything.

    spool: per message  xid u32, lsn i64, length u32, then the message without its xid
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from struct import Struct, error
from typing import IO

from headwater.capture.change import BUSY_ROWS, GATHER_S, Batch
from headwater.capture.postgres import pgoutput
from headwater.capture.postgres.assembly import DELETE, INSERT, MESSAGE, UPDATE, Assembly
from headwater.capture.postgres.pgoutput import Malformed
from headwater.capture.postgres.replication import (
    DATA,
    DATA_HEADER,
    KEEPALIVE,
    KEEPALIVE_BODY,
    Replication,
)
from headwater.capture.source import IDLE_S

_XID = Struct(">I").unpack_from
BEGIN, COMMIT, ORIGIN = 0x42, 0x43, 0x4F
STREAM_START, STREAM_STOP, STREAM_COMMIT, STREAM_ABORT = 0x53, 0x45, 0x63, 0x41
_MESSAGE_AT = DATA_HEADER.size
_LSN = Struct(">q").unpack_from
_ROWS = frozenset((INSERT, UPDATE, DELETE))


class Stream:
    """One run of the stream, from a position on."""

    def __init__(
        self,
        replication: Replication,
        assembly: Assembly,
        until: int | None = None,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        """`until`: leave when all that was committed before this lsn has been handed over.
        `between`: called between transactions, when a batch was handed over or nothing is here."""
        self._replication = replication
        self._assembly = assembly
        self._streamed = Streamed()
        self._until = until
        self._between = between
        self._over = False

    def batches(self) -> Iterator[Batch]:
        replication, assembly = self._replication, self._assembly
        gathering = 0.0
        try:
            while not self._over:
                data = replication.next()
                if data is None:
                    if not assembly.open:
                        self._between()
                    if assembly.waiting and not assembly.open:
                        left = gathering - time.monotonic()
                        if left > 0:
                            replication.wait(left)
                            continue
                        batch = assembly.take()
                        yield batch
                        busy = batch.rows >= BUSY_ROWS
                        gathering = time.monotonic() + GATHER_S if busy else 0.0
                    elif not replication.wait(IDLE_S):
                        yield Batch(assembly.handed) if assembly.open else assembly.take()
                elif data[0] == DATA:
                    kind = data[_MESSAGE_AT]
                    if kind in _ROWS and self._streamed.current is None:
                        # Nearly all messages: no detour.
                        assembly.row(kind, _LSN(data, 1)[0], data, _MESSAGE_AT + 1)
                        if assembly.due:
                            yield assembly.take()
                    else:
                        yield from self._data(data)
                elif data[0] == KEEPALIVE:
                    self._keepalive(data)
                else:
                    raise Malformed(f"a message {data[:1]!r} in the stream")
            # Also without records: a transaction that was cut is over, and its `skip` with it.
            yield assembly.take()
        finally:
            self._streamed.close()

    def _keepalive(self, data: bytes) -> None:
        end, _time, wanted = KEEPALIVE_BODY.unpack(data)
        if not self._assembly.open:
            self._assembly.idle_at(end)
            self._over = self._until is not None and end >= self._until
        if wanted:
            self._replication.tell()

    def _data(self, data: bytes) -> Iterator[Batch]:
        try:
            lsn = DATA_HEADER.unpack_from(data)[0]
            kind = data[_MESSAGE_AT]
            at = _MESSAGE_AT + 1
            if self._streamed.current is not None and kind != STREAM_STOP:
                self._hold(kind, lsn, data, at)
            elif kind == STREAM_COMMIT:
                yield from self._streamed_commit(data, at)
            elif kind == BEGIN:
                begun = pgoutput.begin(data, at)
                if self._past(begun.final_lsn):
                    return
                self._assembly.begin(*begun)
            else:
                self._plain(kind, lsn, data, at)
        except (error, IndexError) as problem:
            raise Malformed(f"a message that ends too early: {problem}") from None
        if self._assembly.due:
            yield self._assembly.take()
            if not self._assembly.open:
                self._between()

    def _plain(self, kind: int, lsn: int, data: bytes, at: int) -> None:
        if kind == COMMIT:
            self._assembly.commit(pgoutput.commit(data, at).end_lsn)
        elif kind == STREAM_START:
            self._streamed.start(_XID(data, at)[0])
        elif kind == STREAM_STOP:
            self._streamed.stop()
        elif kind == STREAM_ABORT:
            self._streamed.abort(_XID(data, at)[0], _XID(data, at + 4)[0])
        elif kind == MESSAGE and not self._assembly.open:
            self._assembly.message(pgoutput.message(data, at))
        elif kind != ORIGIN or self._assembly.open:
            self._assembly.change(kind, lsn, data, at)

    def _hold(self, kind: int, lsn: int, data: bytes, at: int) -> None:
        """A change of an unfinished transaction; its xid stands between kind and body."""
        spool = self._streamed.current
        if spool is None:
            raise ValueError("a streamed change outside of a streamed transaction")
        spool.add(_XID(data, at)[0], lsn, bytes((kind,)) + data[at + 4 :])

    def _streamed_commit(self, data: bytes, at: int) -> Iterator[Batch]:
        xid = _XID(data, at)[0]
        ended = pgoutput.commit(data, at + 4)
        if self._past(ended.commit_lsn):
            return
        assembly = self._assembly
        spool = self._streamed.pop(xid)
        try:
            assembly.begin(ended.commit_lsn, ended.time_us, xid)
            for lsn, message in spool.replay():
                assembly.change(message[0], lsn, message, 1)
                if assembly.due:
                    yield assembly.take()
            assembly.commit(ended.end_lsn)
        finally:
            spool.close()

    def _past(self, commit_lsn: int) -> bool:
        self._over = self._until is not None and commit_lsn >= self._until
        return self._over


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
