"""A transactional producer by hand: each step in the version that a test wants, errors as they come.

`version` is the transaction version (KIP-890): with 2 a Produce adds its partition and the end raises
the epoch, with 1 the client adds partitions itself and keeps its epoch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .asking import PASSING
from .batches import TRANSACTIONAL, batch
from .waiting import until
from .wire import ErrorCode, Wire

PRODUCE = {1: 11, 2: 12}
END = {1: 4, 2: 5}
OFFSETS = {1: 4, 2: 5}
BUSY = PASSING | {ErrorCode.concurrent_transactions}


@dataclass(frozen=True)
class Described:
    error: ErrorCode
    state: str
    timeout_ms: int
    start_ms: int
    producer_id: int
    epoch: int
    partitions: frozenset[tuple[str, int]]

    @classmethod
    def read(cls, frame: bytes) -> Described:
        """One transaction: header (4 + 1), throttle time (4), count (1), and its fields."""
        (error,) = struct.unpack_from(">h", frame, 10)
        _, at = _string(frame, 12)
        state, at = _string(frame, at)
        timeout, start, producer_id, epoch = struct.unpack_from(">iqqh", frame, at)
        topics, at = frame[at + 22] - 1, at + 23
        found = set()
        for _ in range(topics):
            name, at = _string(frame, at)
            count, at = frame[at] - 1, at + 1
            numbers = struct.unpack_from(f">{count}i", frame, at)
            found.update((name, number) for number in numbers)
            at += 4 * count + 1
        return cls(ErrorCode(error), state, timeout, start, producer_id, epoch, frozenset(found))


def _string(frame: bytes, at: int) -> tuple[str, int]:
    size = frame[at] - 1
    assert size < 127, "a longer name would need a longer length"
    return frame[at + 1 : at + 1 + size].decode(), at + 1 + size


@dataclass
class Transactor:
    wire: Wire
    name: str
    version: int = 2
    timeout_ms: int = 60_000
    id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    # ---- who it is -----------------------------------------------------------------------------

    def ask_init(self, version: int = 5, **more: Any) -> Any:
        values = {"transactional_id": self.name, "transaction_timeout": self.timeout_ms}
        if version >= 3:
            values |= {"producer_id": -1, "producer_epoch": -1}
        return self.wire.ask("init_producer_id", version, **(values | more))

    def init(self) -> Transactor:
        """Id and epoch, after as many tries as it takes."""
        self.wire.ask("find_coordinator", 4, key_type=1, coordinator_keys=[self.name])

        def done() -> bool:
            answer = self.ask_init()
            assert answer.error_code in (ErrorCode.none, *BUSY), answer
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
            return answer.error_code is ErrorCode.none

        until(done, f"{self.name} to get its id")
        self.sequences.clear()
        return self

    # ---- what it writes ------------------------------------------------------------------------

    def add(self, topic: str, *partitions: int, version: int = 3) -> ErrorCode:
        """AddPartitionsToTxn as a client sends it; the first partition's error."""
        answer = self.wire.ask(
            "add_partitions_to_txn",
            version,
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[{"name": topic, "partitions": partitions}],
        )
        topics = answer.results_by_topic_v3_and_below
        return ErrorCode(topics[0].results_by_partition[0].partition_error_code)

    def produce(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        version: int | None = None,
        transactional: bool = True,
        name: str | None = "",
        sequence: int | None = None,
    ) -> Any:
        """The partition's answer; sequences go on only after a success."""
        where = (topic, partition)
        first = self.sequences.get(where, 0) if sequence is None else sequence
        data = batch(
            [(b"k", value) for value in values or (b"v",)],
            producer=(self.id, self.epoch, first),
            attributes=TRANSACTIONAL if transactional else 0,
        )
        answer = self.wire.ask(
            "produce",
            PRODUCE[self.version] if version is None else version,
            transactional_id=self.name if name == "" else name,
            acks=-1,
            timeout=60_000,
            topic_data=[{"name": topic, "partition_data": [{"index": partition, "records": data}]}],
        )
        row = answer.responses[0].partition_responses[0]
        if row.error_code is ErrorCode.none and sequence is None:
            self.sequences[where] = first + len(values or (b"v",))
        return row

    def write(self, topic: str, *values: bytes, partition: int = 0) -> int:
        """Within a transaction, as a well-behaved client; the first offset."""
        if self.version == 1:
            self.retried(lambda: self.add(topic, partition))

        def stored() -> Any:
            row = self.produce(topic, *values, partition=partition)
            assert row.error_code in (ErrorCode.none, ErrorCode.not_enough_replicas, *BUSY), row
            return row if row.error_code is ErrorCode.none else None

        return int(until(stored, "the batch to be taken").base_offset)

    def send_offsets(
        self,
        group: str,
        topic: str,
        offsets: dict[int, int],
        version: int | None = None,
        **member: Any,
    ) -> ErrorCode:
        """TxnOffsetCommit; the first partition's error."""
        wanted = [
            {"partition_index": number, "committed_offset": offset}
            for number, offset in offsets.items()
        ]
        answer = self.wire.ask(
            "txn_offset_commit",
            OFFSETS[self.version] if version is None else version,
            transactional_id=self.name,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            topics=[{"name": topic, "partitions": wanted}],
            **member,
        )
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def add_offsets(self, group: str, version: int = 4) -> ErrorCode:
        answer = self.wire.ask(
            "add_offsets_to_txn",
            version,
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            group_id=group,
        )
        return ErrorCode(answer.error_code)

    # ---- how it ends ---------------------------------------------------------------------------

    def ask_end(self, commit: bool, version: int | None = None) -> Any:
        return self.wire.ask(
            "end_txn",
            END[self.version] if version is None else version,
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=commit,
        )

    def end(self, commit: bool = True) -> None:
        """Commit or abort, and wait until the coordinator has written everything."""
        answer = self.ask_end(commit)
        assert answer.error_code is ErrorCode.none, answer
        if self.version == 2:
            if (answer.producer_id, answer.producer_epoch) != (self.id, self.epoch):
                self.sequences.clear()
            self.id, self.epoch = answer.producer_id, answer.producer_epoch
        self.settle()

    def settle(self) -> None:
        until(lambda: not self.state().startswith("Prepare"), f"{self.name} to end")

    def state(self) -> str:
        return str(self.described().state)

    def described(self) -> Described:
        """DescribeTransactions, read by hand: kio takes no start time of -1."""
        self.wire.send("describe_transactions", 0, answer=False, transactional_ids=[self.name])
        return Described.read(self.wire.receive_bytes())

    @staticmethod
    def retried(step: Any, *, busy: Sequence[ErrorCode] = BUSY) -> None:
        def done() -> bool:
            error = step()
            assert error in (ErrorCode.none, *busy), error
            return bool(error is ErrorCode.none)

        until(done, "the coordinator to be free")
