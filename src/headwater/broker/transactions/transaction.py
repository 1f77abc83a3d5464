"""What is known of one transactional id. A value: every change makes a new one (`transitions`).

    Empty ──▶ Ongoing ──▶ PrepareCommit ──▶ CompleteCommit ──▶ Ongoing …
                 │
                 └──────▶ PrepareAbort ───▶ CompleteAbort ───▶ Ongoing …

Kafka has two more: PrepareEpochFence, which is never written (the step to PrepareAbort with a higher
epoch is one step here), and Dead, for an id that is about to be forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

TopicPartition = tuple[str, int]

NO_ID = -1
NO_EPOCH = -1
EPOCH_MAX = 2**15 - 1


class State(IntEnum):
    """The numbers are those of the records in `__transaction_state`."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def label(self) -> str:
        """As Kafka's tools show it."""
        return "".join(word.capitalize() for word in self.name.split("_"))


STATES = {state.label: state for state in State}
PREPARED = (State.PREPARE_COMMIT, State.PREPARE_ABORT)
COMPLETED = (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transactional id, its producer and the transaction that it is in."""

    id: str
    producer_id: int
    epoch: int = NO_EPOCH
    last_epoch: int = NO_EPOCH
    """The epoch before the last bump that the producer itself asked for; not written."""
    previous_producer_id: int = NO_ID
    next_producer_id: int = NO_ID
    """Takes over once the transaction is complete, because the epochs are used up."""
    timeout_ms: int = 0
    state: State = State.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    start_ms: int = -1
    updated_ms: int = -1
    version: int = 0
    """Of the protocol that the client speaks: from 2 on every transaction has an epoch of its own."""

    @property
    def is_exhausted(self) -> bool:
        """The last epoch is kept back for fencing."""
        return self.epoch >= EPOCH_MAX - 1

    @property
    def highest_id(self) -> int:
        """Of the producer ids that it names."""
        return max(self.producer_id, self.previous_producer_id, self.next_producer_id)

    @property
    def is_prepared(self) -> bool:
        """How it ends is decided and durable; the markers may be missing."""
        return self.state in PREPARED

    @property
    def commits(self) -> bool:
        return self.state is State.PREPARE_COMMIT
