"""What happened, and whether it may have: the checker of the transaction tests.

A journal says how far each transaction came as its producer knows it, the topics say what became of
it. Judged are: committed ones (all records, once each), aborted ones (none), those in doubt because
their producer was killed (all or none), and that every committed input has exactly one output.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from tests.compat.batches import CONTROL, read_batches
from tests.compat.wire import ErrorCode, Wire


@dataclass
class Outcome:
    """Transactions by how they ended, as their producers know it."""

    committed: set[tuple[str, int]] = field(default_factory=set)
    aborted: set[tuple[str, int]] = field(default_factory=set)
    doubtful: set[tuple[str, int]] = field(default_factory=set)

    @property
    def total(self) -> int:
        return len(self.committed) + len(self.aborted) + len(self.doubtful)


def outcome(folder: Path, prefix: str) -> Outcome:
    """What the journals of these workers say."""
    found = Outcome()
    for path in sorted(folder.glob(f"{prefix}*.journal")):
        for line in path.read_text().splitlines():
            word, number, _ = line.split()
            transaction = (path.stem, int(number))
            if word == "begin":
                found.doubtful.add(transaction)
            else:
                found.doubtful.discard(transaction)
                (found.committed if word == "committed" else found.aborted).add(transaction)
    return found


@dataclass
class Read:
    """A committed record: where it is, and what it says."""

    partition: int
    offset: int
    value: bytes


def read_committed(wire: Wire, topic: str, partitions: int) -> list[Read]:
    """Everything committed, in order. Fails if a transaction is still open at the end."""
    found: list[Read] = []
    for partition in range(partitions):
        found += _read_partition(wire, topic, partition)
    return found


def _read_partition(wire: Wire, topic: str, partition: int) -> list[Read]:
    found: list[Read] = []
    offset, skipping = 0, set[int]()
    while True:
        wanted = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        answer = wire.ask(
            "fetch",
            12,
            replica_id=-1,
            max_wait=0,
            min_bytes=0,
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[{"topic": topic, "partitions": [wanted]}],
        )
        row = answer.responses[0].partitions[0]
        assert row.error_code is ErrorCode.none
        assert row.last_stable_offset == row.high_watermark, "a transaction is still open"
        if offset == row.high_watermark:
            return found
        waiting = sorted((each.first_offset, each.producer_id) for each in row.aborted_transactions)
        for batch in read_batches(row.records):
            while waiting and waiting[0][0] <= batch.last_offset:
                skipping.add(waiting.pop(0)[1])
            if batch.attributes & CONTROL:
                skipping.discard(batch.producer_id)
            elif batch.producer_id not in skipping:
                found += [
                    Read(partition, batch.base_offset + n, value or b"")
                    for n, (_, value) in enumerate(batch.pairs)
                ]
            offset = batch.last_offset + 1


def judge_sources(found: list[Read], known: Outcome) -> list[str]:
    """What is wrong with the records of the sources; nothing, one hopes."""
    seen: dict[tuple[str, int], Counter[int]] = defaultdict(Counter)
    counts: dict[tuple[str, int], int] = {}
    for record in found:
        incarnation, number, index, count = json.loads(record.value)
        seen[incarnation, number][index] += 1
        counts[incarnation, number] = count
    wrong = []
    for transaction, indexes in seen.items():
        if transaction in known.aborted:
            wrong.append(f"{transaction} was aborted, and is read")
        elif transaction not in known.committed and transaction not in known.doubtful:
            wrong.append(f"{transaction} is read, and nobody began it")
        if set(indexes) != set(range(counts[transaction])):
            wrong.append(f"{transaction} is torn: {sorted(indexes)} of {counts[transaction]}")
        if max(indexes.values()) > 1:
            wrong.append(f"{transaction} is there twice: {dict(indexes)}")
    wrong += [f"{each} was committed, and is lost" for each in known.committed - set(seen)]
    return wrong


def judge_results(inputs: list[Read], results: list[Read]) -> list[str]:
    """Each committed input must have one output."""
    wanted = {f"{each.partition}:{each.offset}" for each in inputs}
    counted = Counter(each.value.decode() for each in results)
    wrong = [f"{name} came out {count} times" for name, count in counted.items() if count > 1]
    wrong += [f"{name} never came out" for name in wanted - set(counted)]
    wrong += [f"{name} came out, and never went in" for name in set(counted) - wanted]
    return wrong
