"""May a transactional batch be stored? Asked by Produce for every batch, those that are sent again too.

The coordinator decides: with transaction version 2 (Produce 12+) all partitions of the request are added
to the transaction at once, before that the client must have added them (KIP-890). That the producer has
a transaction open in the partition is no answer: the disk may have refused the record that adds it. No
batch is acknowledged before the coordinator's value that names its partition is durable. Requests to excise
are no part of a transaction: they are carried out at once, and no abort brings back what was removed.
"""

from __future__ import annotations

from collections.abc import Iterable

from kio.schema.errors import ErrorCode

from headwater.broker import internal_topics
from headwater.broker.internal_topic import Staged
from headwater.broker.transactions.coordinator import TransactionCoordinator
from headwater.broker.transactions.transaction import TopicPartition, Transaction
from headwater.broker.transactions.transitions import Producer

IMPLICIT_SINCE = 12
ABORTABLE_SINCE = 11


class NotAdmitted(Exception):
    """The batch is not part of an ongoing transaction."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(_SENTENCES.get(code, "The transaction coordinator refused the batch."))
        self.code = code


_SENTENCES = {
    ErrorCode.invalid_topic_exception: "A request to excise is carried out at once and cannot be taken back: "
    "write it outside of the transaction.",
    ErrorCode.invalid_txn_state: "Partition was not added to the transaction",
    ErrorCode.not_enough_replicas: "Unable to verify the partition has been added to the transaction.",
}


class Admission:
    """For one Produce request."""

    def __init__(self, coordinator: TransactionCoordinator, name: str, version: int) -> None:
        self._coordinator = coordinator
        self._name = name
        self._version = version
        self._partitions: set[TopicPartition] = set()
        self._added: Transaction | None = None
        """The value of the transaction that has all of them: as long as it stands, none is to be added."""

    def wants(self, partitions: Iterable[TopicPartition]) -> None:
        """The request is about these, too."""
        # Where the broker alone writes, the batch is refused, and no marker is to follow it.
        own = internal_topics.written_by_broker
        self._partitions.update(each for each in partitions if not own(each[0]))

    def admit(self, producer: Producer, partition: TopicPartition) -> Staged | None:
        """What must be durable, too, before the batch is acknowledged. Raises NotAdmitted."""
        if partition[0] == internal_topics.EXCISIONS:
            raise NotAdmitted(ErrorCode.invalid_topic_exception)
        error, written = self._ask(producer, partition)
        error = for_older_clients(error, self._version >= ABORTABLE_SINCE)
        if error is ErrorCode.concurrent_transactions and self._version < IMPLICIT_SINCE:
            error = ErrorCode.not_enough_replicas  # older clients know how to retry that
        if error is ErrorCode.coordinator_not_available:
            error = ErrorCode.not_enough_replicas
        if error is not ErrorCode.none:
            raise NotAdmitted(error)
        return written

    def _ask(
        self, producer: Producer, partition: TopicPartition
    ) -> tuple[ErrorCode, Staged | None]:
        coordinator, name = self._coordinator, self._name
        if partition not in self._partitions:  # it was made after the request had come
            self._partitions.add(partition)
            self._added = None
        known = coordinator.transactions.get(name)
        if self._version < IMPLICIT_SINCE or (known is not None and known is self._added):
            return coordinator.verify(name, producer, partition)
        error, written = coordinator.add_now(name, producer, self._partitions)
        if error is ErrorCode.none:
            self._added = coordinator.transactions.get(name)
        return error, written


def for_older_clients(error: ErrorCode, knows_abortable: bool) -> ErrorCode:
    """As Kafka translates what the coordinator says, for whoever writes."""
    if error is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if error is ErrorCode.transaction_abortable and not knows_abortable:
        return ErrorCode.invalid_txn_state
    return error
