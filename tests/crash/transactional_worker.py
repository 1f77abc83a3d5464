"""Workers that can be killed: each a process that writes in transactions and keeps a journal of them.

    source      writes numbered records to topic `orders`, commits or aborts by chance
    transform   reads `orders` (read_committed), writes one record for each to `results-NAME`, and its
                position with them, in one transaction

The newer protocol is spoken by hand (`tests.compat.transacting`), the older one by confluent-kafka. Every
incarnation has a name of its own, and all of a worker's incarnations share a transactional id: a newer
one fences the older. A journal line is written with one system call, so kill -9 loses none.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer

from tests.compat.batches import CONTROL, read_batches
from tests.compat.transacting import BUSY, Transactor
from tests.compat.wire import ConnectionClosed, ErrorCode, Wire

ORDERS = "orders"
PARTITIONS = 3
FENCED = (
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.invalid_producer_id_mapping,
)
EXIT_FENCED = 3
PATIENCE_S = 100.0


class Fenced(Exception):
    """A newer incarnation has taken over."""


class Journal:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, word: str, number: int, count: int = 0) -> None:
        os.write(self._file, f"{word} {number} {count}\n".encode())


class Worker:
    """What every kind needs: where, who, chance, and when to end."""

    def __init__(self, bootstrap: str, name: str, incarnation: str, folder: Path) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.incarnation = incarnation
        self.dice = Random(incarnation)
        self.journal = Journal(folder / f"{incarnation}.journal")
        self.stop = folder / "stop-sources"
        self.number = 0

    def records(self) -> list[bytes]:
        count = self.dice.randint(1, 6)
        return [
            json.dumps([self.incarnation, self.number, i, count]).encode() for i in range(count)
        ]


# ---- by hand, the newer protocol -----------------------------------------------------------------


class ByHand:
    """A `Transactor` that finds the broker again, however often it goes away."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.one = Transactor(self._connect(), worker.name, 2)
        self.again(self.one.init)

    def _connect(self) -> Wire:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return Wire(self.worker.bootstrap)
            except OSError:
                assert time.monotonic() < end, "the broker is gone"
                time.sleep(0.01)

    def again(self, step: Callable[[], Any]) -> Any:
        while True:
            try:
                return step()
            except (OSError, ConnectionClosed):
                self.one.wire.close()
                self.one.wire = self._connect()

    def retried(self, step: Callable[[], ErrorCode]) -> ErrorCode:
        """Repeat while the coordinator is busy or away; raises Fenced."""
        end = time.monotonic() + PATIENCE_S
        while True:
            error: ErrorCode = self.again(step)
            if error in FENCED:
                raise Fenced(error.name)
            if error not in BUSY:
                return error
            assert time.monotonic() < end, f"still {error.name}"
            time.sleep(0.005)

    def produce(self, topic: str, values: list[bytes], partition: int) -> None:
        error = self.retried(
            lambda: self.one.produce(topic, *values, partition=partition).error_code
        )
        assert error is ErrorCode.none, f"produce: {error.name}"

    def end(self, commit: bool) -> None:
        answer: Any = None

        def step() -> ErrorCode:
            nonlocal answer
            answer = self.one.ask_end(commit)
            return ErrorCode(answer.error_code)

        error = self.retried(step)
        if error is ErrorCode.invalid_txn_state and commit:
            raise Fenced("aborted by the one that took over")
        assert error is ErrorCode.none, f"end: {error.name}"
        self.one.id, self.one.epoch = answer.producer_id, answer.producer_epoch
        self.one.sequences.clear()


def source_by_hand(worker: Worker) -> None:
    client = ByHand(worker)
    while not worker.stop.exists():
        worker.number += 1
        values = worker.records()
        worker.journal.write("begin", worker.number, len(values))
        for value in values:
            client.produce(ORDERS, [value], worker.dice.randrange(PARTITIONS))
        commit = worker.dice.random() < 0.8
        client.end(commit)
        worker.journal.write("committed" if commit else "aborted", worker.number, len(values))


def transform_by_hand(worker: Worker) -> None:
    client, group, target = ByHand(worker), worker.name, f"results-{worker.name}"
    positions = _positions(client, group)
    while True:
        for partition in range(PARTITIONS):
            found, position = _committed_records(client, partition, positions[partition])
            if not found:
                positions[partition] = position
                continue
            worker.number += 1
            worker.journal.write("begin", worker.number, len(found))
            client.produce(target, found, 0)
            offsets = {partition: position}
            error = client.retried(
                lambda o=offsets: client.one.send_offsets(group, ORDERS, o)  # type: ignore[misc]
            )
            assert error is ErrorCode.none, f"offsets: {error.name}"
            commit = worker.dice.random() < 0.8
            client.end(commit)
            worker.journal.write("committed" if commit else "aborted", worker.number, len(found))
            if commit:
                positions[partition] = position


def _positions(client: ByHand, group: str) -> list[int]:
    """What the group has committed, once no transaction is in doubt (KIP-447)."""
    topics = [{"name": ORDERS, "partition_indexes": list(range(PARTITIONS))}]

    def ask() -> Any:
        groups = [{"group_id": group, "topics": topics}]
        answer = client.one.wire.ask("offset_fetch", 8, groups=groups, require_stable=True)
        return answer.groups[0]

    while True:
        found = client.again(ask)
        rows = found.topics[0].partitions if found.topics else ()
        if rows and all(row.error_code is ErrorCode.none for row in rows):
            return [max(row.committed_offset, 0) for row in rows]
        time.sleep(0.01)


def _committed_records(client: ByHand, partition: int, offset: int) -> tuple[list[bytes], int]:
    """Names (partition:offset) of committed records from an offset on, and the next position."""

    def ask() -> Any:
        wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 4000}
        answer = client.one.wire.ask(
            "fetch",
            12,
            replica_id=-1,
            max_wait=20,
            min_bytes=1,
            max_bytes=4000,
            isolation_level=1,
            topics=[{"topic": ORDERS, "partitions": [wanted]}],
        )
        return answer.responses[0].partitions[0]

    row = client.again(ask)
    if row.error_code is not ErrorCode.none:
        return [], offset
    waiting = sorted((each.first_offset, each.producer_id) for each in row.aborted_transactions)
    skipping: set[int] = set()
    found: list[bytes] = []
    for batch in read_batches(row.records):
        while waiting and waiting[0][0] <= batch.last_offset:
            skipping.add(waiting.pop(0)[1])
        if batch.attributes & CONTROL:
            skipping.discard(batch.producer_id)
        elif batch.producer_id not in skipping:
            numbers = range(max(batch.base_offset, offset), batch.last_offset + 1)
            found += [b"%d:%d" % (partition, number) for number in numbers]
        offset = batch.last_offset + 1
    return found, offset


# ---- confluent-kafka, the older protocol ---------------------------------------------------------

QUICK = {
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 50,
    "retry.backoff.ms": 5,
    "retry.backoff.max.ms": 50,
    "log_level": 0,
}
# What docs/transactions.md tells everyone who sends offsets: after a re-bootstrap librdkafka 2.16 sends
# TxnOffsetCommit to a connection that it has closed for good, with any broker (its issue 5511).
NO_REBOOTSTRAP = {"metadata.recovery.strategy": "none"}


class Confluent:
    """Retries what may be retried, tells apart what must be aborted and what is over."""

    def __init__(self, worker: Worker) -> None:
        self.producer = Producer(
            {
                "bootstrap.servers": worker.bootstrap,
                "transactional.id": worker.name,
                "linger.ms": 0,
                "message.timeout.ms": 59_000,
                "transaction.timeout.ms": 60_000,
                **QUICK,
                **NO_REBOOTSTRAP,
            }
        )
        self._call(self.producer.init_transactions)

    def _call(self, step: Callable[..., Any], *arguments: Any) -> None:
        while True:
            try:
                step(*arguments, 30)
                return
            except KafkaException as error:
                if error.args[0].fatal():
                    raise Fenced(str(error)) from error
                if not error.args[0].retriable():
                    raise

    def write(self, records: list[tuple[str, bytes, int]], offsets: Any, commit: bool) -> bool:
        """One transaction; whether it was committed."""
        try:
            self.producer.begin_transaction()
            for topic, value, partition in records:
                self.producer.produce(topic, value, partition=partition)
            if offsets is not None:
                self._call(self.producer.send_offsets_to_transaction, *offsets)
            self.producer.flush(30)
            if commit:
                self._call(self.producer.commit_transaction)
                return True
        except KafkaException as error:
            if error.args[0].fatal():
                raise Fenced(str(error)) from error
            if not error.args[0].txn_requires_abort():
                raise
        self._call(self.producer.abort_transaction)
        return False


def source_confluent(worker: Worker) -> None:
    client = Confluent(worker)
    while not worker.stop.exists():
        worker.number += 1
        values = worker.records()
        worker.journal.write("begin", worker.number, len(values))
        records = [(ORDERS, value, worker.dice.randrange(PARTITIONS)) for value in values]
        done = client.write(records, None, worker.dice.random() < 0.8)
        worker.journal.write("committed" if done else "aborted", worker.number, len(values))


def transform_confluent(worker: Worker) -> None:
    """Several of these share a group, and so the partitions; each has a transactional id."""
    client = Confluent(worker)
    group = worker.name.rpartition("-")[0]
    reader = Consumer(
        {
            "bootstrap.servers": worker.bootstrap,
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 1500,
            "heartbeat.interval.ms": 300,
            "fetch.wait.max.ms": 20,
            **QUICK,
        }
    )
    reader.subscribe([ORDERS])
    while True:
        messages: list[Message] = [m for m in reader.consume(100, 0.1) if not m.error()]
        if not messages:
            continue
        worker.number += 1
        worker.journal.write("begin", worker.number, len(messages))
        records = [
            (f"results-{group}", f"{m.partition()}:{m.offset()}".encode(), 0) for m in messages
        ]
        offsets = (reader.position(reader.assignment()), reader.consumer_group_metadata())
        done = client.write(records, offsets, worker.dice.random() < 0.8)
        worker.journal.write("committed" if done else "aborted", worker.number, len(messages))
        if not done:
            _rewind(reader)


def _rewind(reader: Consumer) -> None:
    while True:
        try:
            for each in reader.committed(reader.assignment(), 10):
                each.offset = max(each.offset, 0)
                reader.seek(each)
            return
        except KafkaException:
            reader.poll(0.1)  # the broker is away, or the assignment has changed


KINDS = {
    "source-by-hand": source_by_hand,
    "source-confluent": source_confluent,
    "transform-by-hand": transform_by_hand,
    "transform-confluent": transform_confluent,
}


def main() -> int:
    faulthandler.register(signal.SIGUSR1)  # says where it stands, if it stands still
    kind, bootstrap, name, incarnation, folder = sys.argv[1:]
    try:
        KINDS[kind](Worker(bootstrap, name, incarnation, Path(folder)))
    except Fenced:
        return EXIT_FENCED
    return 0


if __name__ == "__main__":
    sys.exit(main())
