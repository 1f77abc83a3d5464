"""Batches on their way to one partition, a few ahead of their answers, each with the offset that it must get.

`writer` calls it. Sequence numbers make it safe to send again whatever was not answered, as a broker knows
the last five batches of a producer: so `WINDOW` must not exceed 5, and all in it must be of one producer.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

from collections import deque
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.client import cluster
from headwater.client import connection as api
from headwater.client.cluster import TryAgain
from headwater.client.connection import Disconnected
from headwater.client.leader import Leader
from headwater.client.transaction import PRODUCE_VERSION
from headwater.project.promote.errors import CannotPromote, Diverged

WINDOW = 4
_TIMEOUT_MS = 30_000
_USE = "promote"
"""A connection of its own: requests run ahead of answers here, and nowhere else."""


class SentBatch(NamedTuple):
    """A batch that is ready, and where it belongs."""

    first: int
    data: bytes
    transactional_id: str | None


class Sender:
    """The way to one partition."""

    def __init__(self, leader: Leader) -> None:
        self._leader = leader
        self._flying: deque[SentBatch] = deque()

    def send(self, sent: SentBatch) -> None:
        """Send; waits only while the window is full."""
        try:
            connection = self._leader.connection(_USE)
            while len(self._flying) >= WINDOW:
                self._land(connection)
            connection.send(api.PRODUCE, self._body(sent), PRODUCE_VERSION)
            self._flying.append(sent)
        except (Disconnected, TryAgain):
            self._recover([sent])

    def flush(self) -> None:
        """Return when all that was sent is where it belongs."""
        try:
            while self._flying:
                self._land(self._leader.connection(_USE))
        except (Disconnected, TryAgain):
            self._recover([])

    def _land(self, connection: api.Connection) -> None:
        if not connection.pending:
            raise Disconnected("the connection on which the answer would come is gone")
        answer = connection.receive()
        self._settle(self._flying[0], answer)
        self._flying.popleft()

    def _recover(self, more: list[SentBatch]) -> None:
        """Have all that was not answered, and then `more`, stored one by one."""
        todo = [*self._flying, *more]
        self._flying.clear()
        self._leader.forget()
        for sent in todo:
            self._leader.ask(lambda connection, sent=sent: self._once(connection, sent))  # type: ignore[misc]

    def _once(self, connection: api.Connection, sent: SentBatch) -> None:
        self._settle(sent, connection.ask(api.PRODUCE, self._body(sent), PRODUCE_VERSION))

    def _body(self, sent: SentBatch) -> dict[str, Any]:
        topic, partition = self._leader.place
        data = [{"index": partition, "records": sent.data}]
        return {
            "transactional_id": sent.transactional_id,
            "acks": -1,
            "timeout": _TIMEOUT_MS,
            "topic_data": [{"name": topic, "partition_data": data}],
        }

    def _settle(self, sent: SentBatch, answer: Any) -> None:
        (found,) = answer.responses[0].partition_responses
        name = "-".join(map(str, self._leader.place))
        code, placed = found.error_code, int(found.base_offset)
        if code is ErrorCode.duplicate_sequence_number:
            return  # it was stored before, and compared in the end like all others
        if code is ErrorCode.out_of_order_sequence_number:
            raise TryAgain(f"a batch before it did not reach {name}")
        if code in (ErrorCode.message_too_large, ErrorCode.invalid_record):
            raise CannotPromote(
                f"{name}: Kafka refuses the batch at offset {sent.first} "
                f"({code.name}: {found.error_message or 'no reason given'})",
                hint="raise message.max.bytes and socket.request.max.bytes of Kafka",
            )
        cluster.check(code, f"writing to {name}")
        if placed != sent.first:
            raise Diverged(f"{name}: offset {sent.first} was given as {placed}")
