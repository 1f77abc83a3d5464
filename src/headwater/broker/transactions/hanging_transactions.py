"""Transactions that are open in a partition and that the coordinator does not know to be (KIP-664's
"hanging" ones): their readers would wait for ever.

`coordinator` has them settled at start, when values were lost with a crash or because the disk has refused
them, and, while some are left, now and then. A producer that still is in that epoch has its partition added
again: the batch was admitted, and only the record of that was lost. Otherwise nobody will ever end the
transaction, so it is aborted; unless it is known to have committed, and only its marker was lost with a file.

As long as the disk refuses that for an id, `holds` says so, and nothing is decided for it: an end would
leave out a partition that belongs to the transaction, and a new epoch might be one that was used already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.internal_topic import Staged
from headwater.broker.partition import Partition
from headwater.broker.transactions import transitions
from headwater.broker.transactions.markers import Marker, Markers
from headwater.broker.transactions.state_manager import Overtaken, StateManager
from headwater.broker.transactions.transaction import NO_EPOCH, State, TopicPartition, Transaction
from headwater.broker.transactions.transitions import Producer
from headwater.log.partition import StorageFailed

logger = logging.getLogger("headwater.broker")

Owners = Mapping[int, str]
"""Transactional ids by producer id."""
LISTED_MAX = 5


class HangingTransactions:
    def __init__(
        self,
        state: StateManager,
        markers: Markers,
        partitions: Callable[[], Iterable[Partition]],
        now_ms: Callable[[], int],
        spawn: Callable[[Coroutine[Any, Any, object]], None],
    ) -> None:
        self._state = state
        self._markers = markers
        self._partitions = partitions
        self._now_ms = now_ms
        self._spawn = spawn
        self.held: set[str] = set()
        """Ids whose value the disk has refused: to be tried again."""
        self._trying: dict[str, Staged] = {}
        """The newest value that was written here for each id, while it is not durable."""
        self._has_open_rest = False
        """The disk has refused to end one that nobody knows."""

    def holds(self, name: str) -> bool:
        """Whether nothing may be decided for this id now; the disk is asked once more before, for no
        other: while it refuses, clients ask again and again."""
        if name in self.held:
            self.held.discard(name)
            known = self._state.values.get(name)
            if known is None:
                self.settle()
            else:
                self._settle_owned({known.producer_id: name})
        return name in self.held

    def settle_rest(self) -> None:
        """What the disk has refused until now."""
        if self.held or self._has_open_rest:
            self.settle()

    def settle(self) -> None:
        """Look at all partitions, and write what is missing."""
        self.held, self._has_open_rest = set(), False
        owners = {known.producer_id: known.id for known in self._state.values.values()}
        self._settle_owned(owners)
        for name in [each for each in self._trying if self._state.written(each) is None]:
            del self._trying[name]  # refused, and no longer needed
        if self._state.store.is_whole:  # else an owner may be known to a partition that is offline
            for partition in self._partitions():
                for producer_id in partition.log.producers.open_transactions.keys() - owners.keys():
                    self._give_up(partition, producer_id)

    # ---- what the coordinator must know --------------------------------------------------------------

    def _settle_owned(self, owners: Owners) -> None:
        self._catch_up(owners)
        self._adopt(owners)

    def _catch_up(self, owners: Owners) -> None:
        """A value must never be behind the partitions: its markers and its producer would be fenced. An
        epoch that anybody may have written ends no transaction: it stands in its own partition's way."""
        newest: dict[str, int] = {}
        open_in: dict[str, set[TopicPartition]] = {}
        for known, partition, found in self._seen(owners):
            if found.epoch > known.epoch and found.is_proven:
                newest[known.id] = max(found.epoch, newest.get(known.id, NO_EPOCH))
                if found.transaction_start >= 0:
                    open_in.setdefault(known.id, set()).add((partition.topic, partition.number))
        for name, epoch in newest.items():
            logger.warning("transaction %s: values were lost, up to epoch %d", name, epoch)
            known, where = self._state.values[name], frozenset(open_in.get(name, ()))
            self._write(known, transitions.catch_up(known, epoch, where, self._now_ms()))

    def _seen(self, owners: Owners) -> Iterator[tuple[Transaction, Partition, Any]]:
        """Every partition's memory of these producers."""
        for partition in self._partitions():
            by_id = partition.log.producers.by_id
            for producer_id in by_id.keys() & owners.keys():
                yield self._state.values[owners[producer_id]], partition, by_id[producer_id]

    def _adopt(self, owners: Owners) -> None:
        """All partitions of a transaction with one value: the disk may take its time for each."""
        missing: dict[str, list[TopicPartition]] = {}
        for known, partition, found in self._seen(owners):
            where = (partition.topic, partition.number)
            is_open = known.producer_id in partition.log.producers.open_transactions
            if not is_open or where in known.partitions or known.id in self.held:
                continue
            if self._joined(known, found.epoch, [where]) is None:
                self._give_up(partition, known.producer_id, known)
            else:
                missing.setdefault(known.id, []).append(where)
        for name, places in missing.items():
            known = self._state.values[name]
            value = self._joined(known, known.epoch, places)
            assert value is not None, "each of them was looked at"
            logger.warning("transaction %s: batches join it again, in %s", name, _listed(places))
            self._write(known, value)

    def _joined(
        self, known: Transaction, epoch: int, places: Iterable[TopicPartition]
    ) -> Transaction | None:
        """The value with these partitions; None if it is no longer that producer's to have them."""
        producer = Producer(known.producer_id, epoch)
        return transitions.add(
            known, producer, places, transitions.EPOCH_BUMP_VERSION, self._now_ms()
        ).value

    def _give_up(
        self, partition: Partition, producer_id: int, known: Transaction | None = None
    ) -> None:
        where = (partition.topic, partition.number)
        found = partition.log.producers.by_id[producer_id]
        commit = known is not None and _has_committed(known, found.epoch)
        sentence = "%s-%d: a transaction that nobody knows is aborted"
        if commit:
            sentence = (
                "%s-%d: a transaction has lost its marker; it has committed, and gets another"
            )
        logger.warning(sentence, *where)
        marker = Marker(producer_id, found.epoch + commit, commit, max(0, found.coordinator_epoch))
        self._spawn(self._ended(self._markers.stage(marker, *where, decided=True)))

    async def _ended(self, staged: asyncio.Future[None] | ErrorCode) -> None:
        gone = ErrorCode.unknown_topic_or_partition
        if await self._markers.finish(staged) not in (ErrorCode.none, gone):
            self._has_open_rest = True

    # ---- writing -------------------------------------------------------------------------------------

    def _write(self, known: Transaction, value: Transaction) -> None:
        name = known.id
        if name in self._trying and self._state.written(name) is None:
            del self._trying[name]  # refused just now: not again in the turn that tells of it
            self.held.add(name)
            return
        try:
            written = self._state.change(name, known, value)
        except (StorageFailed, Overtaken) as error:
            logger.error("transaction %s has to wait for the coordinator's log: %s", name, error)
            self.held.add(name)
            return
        self._trying[name] = written
        partition, next_offset = written
        partition.when_durable(next_offset, lambda error: self._settled(name, written, error))

    def _settled(self, name: str, written: Staged, error: Exception | None) -> None:
        if error is None and self._trying.get(name) is written:
            del self._trying[name]


def _has_committed(known: Transaction, epoch: int) -> bool:
    """Whether batches of this epoch are of the transaction that the value speaks of, and that has committed:
    from version 2 on each has an epoch of its own, which its end raises (KIP-890)."""
    is_last = known.version >= transitions.EPOCH_BUMP_VERSION and known.epoch == epoch + 1
    return is_last and known.state is State.COMPLETE_COMMIT


def _listed(places: Sequence[TopicPartition]) -> str:
    more = f" and {len(places) - LISTED_MAX} more" if len(places) > LISTED_MAX else ""
    return ", ".join(f"{topic}-{number}" for topic, number in places[:LISTED_MAX]) + more
