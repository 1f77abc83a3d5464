"""The replication connection: slot commands, the stream of messages, and what we tell the server.

Called by `slot`, `snapshot` and `stream`. psycopg has no replication cursor; its `pq` has what is needed.

| byte | message | layout |
|---|---|---|
| w | data, from the server | start lsn i64, end lsn i64, send time i64, then one pgoutput message |
| k | keep-alive, from the server | end lsn i64, send time i64, answer wanted i8 |
| r | status, to the server | written, flushed, applied lsn i64, time i64, answer wanted i8 |

What is reported as flushed the server may throw away: it must be durable in the log before.
"""

from __future__ import annotations

import select
import time
from struct import Struct
from typing import Any

import psycopg
from psycopg import pq
from psycopg.pq.abc import PGconn

from headwater.capture.errors import Gap, Interrupted, SourceRefused
from headwater.capture.postgres.connection import (
    CONNECT_TIMEOUT_S,
    conninfo,
    identifier,
    lsn_text,
)
from headwater.capture.postgres.pgoutput import EPOCH_US

DATA, KEEPALIVE = 0x77, 0x6B
DATA_HEADER = Struct(">xqqq")
KEEPALIVE_BODY = Struct(">xqqB")
_STATUS = Struct(">cqqqqB")
STATUS_EVERY_S = 5.0
SILENCE_S = 60.0


class Replication:
    """One walsender's other end."""

    def __init__(self, url: str, silence_s: float = SILENCE_S) -> None:
        """`silence_s`: so long the server may say nothing, though it is asked to, before the connection
        counts as lost. A proxy in between may keep it open for ever."""
        # keep-alives of TCP: a network that was cut must not look like a quiet database.
        info = conninfo(
            url,
            replication="database",
            keepalives="1",
            keepalives_idle="10",
            keepalives_interval="5",
            keepalives_count="3",
        )
        self._connection = _connected(info)
        if self._connection.status != pq.ConnStatus.OK:
            said = self._said()
            self._connection.finish()
            if "authentication failed" in said or "must be superuser or replication role" in said:
                raise SourceRefused(
                    f"PostgreSQL refuses a replication connection: {said}",
                    hint="see: headwater capture check",
                )
            raise Interrupted(f"PostgreSQL: {said}")
        self._poll: select.poll | None = None
        self._told = 0.0
        self._silence_s = silence_s
        # Only time spent waiting counts: while the log is slow, nobody listens here.
        self._silent_s = 0.0
        self.flushed = 0

    @property
    def server_version(self) -> int:
        """Like 150004."""
        return self._connection.server_version

    def query(self, statement: str) -> list[dict[str, str | None]]:
        """A command of the replication grammar, or plain SQL."""
        result = self._connection.exec_(statement.encode())
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            raise self._failure(result)
        names = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
        rows = []
        for row in range(result.ntuples):
            values = [result.get_value(row, n) for n in range(result.nfields)]
            rows.append(
                {
                    n: None if v is None else bytes(v).decode()
                    for n, v in zip(names, values, strict=True)
                }
            )
        return rows

    def start(self, slot: str, lsn: int, options: dict[str, str]) -> None:
        """Begin to stream what was committed at or after `lsn`."""
        texts = {name: value.replace("'", "''") for name, value in options.items()}
        shown = ", ".join(f"{name} '{text}'" for name, text in texts.items())
        command = f"START_REPLICATION SLOT {identifier(slot)} LOGICAL {lsn_text(lsn)} ({shown})"
        result = self._connection.exec_(command.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise self._failure(result)
        self.flushed = lsn
        self._poll = select.poll()
        self._poll.register(self._connection.socket, select.POLLIN)

    def next(self) -> bytes | None:
        """The next message, if one is here."""
        try:
            length, data = self._connection.get_copy_data(1)
        except psycopg.Error as error:
            raise self._lost(str(error)) from None
        if length > 0:
            return bytes(data)
        if length == 0:
            return None
        result = self._connection.get_result()
        raise self._failure(result) if result is not None else self._lost("the stream has ended")

    def wait(self, timeout_s: float) -> bool:
        """Wait for bytes; False: none came."""
        assert self._poll is not None
        wanted = self._silent_s > self._silence_s / 4
        pause = min(STATUS_EVERY_S, self._silence_s / 4)
        begun = time.monotonic()
        if begun - self._told > pause:
            self.tell(answer=wanted)
        try:
            ready = self._poll.poll(timeout_s * 1000)
            if ready:
                self._connection.consume_input()
        except psycopg.Error as error:
            raise self._lost(str(error)) from None
        self._silent_s = 0.0 if ready else self._silent_s + time.monotonic() - begun
        if self._silent_s > self._silence_s:
            raise self._lost("the server has fallen silent")
        return bool(ready)

    def tell(self, *, answer: bool = False) -> None:
        """Say what is durable; the server forgets nothing beyond it. `answer`: ask for a sign of life."""
        now = time.time_ns() // 1000 - EPOCH_US
        message = _STATUS.pack(b"r", self.flushed, self.flushed, self.flushed, now, answer)
        try:
            self._connection.put_copy_data(message)
            self._connection.flush()
        except psycopg.Error as error:
            raise self._lost(str(error)) from None
        self._told = time.monotonic()

    def close(self) -> None:
        self._connection.finish()

    def _said(self) -> str:
        return " ".join(self._connection.get_error_message().split())

    def _lost(self, said: str) -> Interrupted:
        return Interrupted(f"the stream from PostgreSQL broke: {' '.join(said.split())}")

    def _failure(self, result: Any) -> Exception:
        said = " ".join(result.get_error_message().split())
        state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
        if (
            "has been invalidated" in said
            or "can no longer get changes" in said
            or ("requested WAL segment" in said and "removed" in said)
        ):
            return Gap(
                f"PostgreSQL has thrown away changes that were not captured yet: {said}",
                hint="start again with a new snapshot: headwater capture run NAME --resnapshot",
            )
        if state == "55006" or state[:2] in ("57", "53", "08", "58", "XX") or not state:
            return Interrupted(f"PostgreSQL: {said}")
        return SourceRefused(f"PostgreSQL: {said} ({state})", hint="see: headwater capture check")


def _connected(info: str) -> PGconn:
    """Step by step: the call that does it in one holds up every other thread of the process."""
    connection = pq.PGconn.connect_start(info.encode())
    deadline = time.monotonic() + CONNECT_TIMEOUT_S
    while (state := connection.connect_poll()) in _UNDER_WAY:
        events = select.POLLIN if state == pq.PollingStatus.READING else select.POLLOUT
        poll = select.poll()
        poll.register(connection.socket, events)
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            connection.finish()
            raise Interrupted("PostgreSQL: no answer to the connection")
    return connection


_UNDER_WAY = (pq.PollingStatus.READING, pq.PollingStatus.WRITING)
