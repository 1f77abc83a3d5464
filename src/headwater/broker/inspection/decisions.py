"""Which transactions are known to have committed, by the coordinator's own log.

`transactions` notes every value of `__transaction_state`, the older ones included as long as compaction has
left them; `markers` asks, where a marker cannot be read any more.

From transaction version 2 on every transaction has an epoch of its own, which its end raises (KIP-890): so a
value that says "commit" with an epoch speaks of the batches with the epoch before, and of no others. Clients
of version 1 keep their epoch from one transaction to the next. Of theirs nothing is believed: which of them a
value speaks of nobody can prove.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headwater.broker.transactions.transaction import State, Transaction
from headwater.broker.transactions.transitions import EPOCH_BUMP_VERSION
from headwater.log.checkpoints import TopicPartition

Epoch = tuple[int, int]
"""Producer id and epoch, of a transaction's batches."""


@dataclass(slots=True)
class Decisions:
    """What was decided, by producer and epoch."""

    _commits: dict[Epoch, frozenset[TopicPartition] | None] = field(default_factory=dict)
    """With the partitions, if the value that names them is still there."""
    _shared: set[Epoch] = field(default_factory=set)
    """Epochs that may have more than one transaction."""

    def note(self, value: Transaction) -> None:
        if value.version < EPOCH_BUMP_VERSION:
            if value.state is not State.EMPTY:
                self._shared.add((value.producer_id, value.epoch))
            return
        before = (value.producer_id, value.epoch - 1)
        if value.state is State.PREPARE_COMMIT:
            self._commits[before] = value.partitions
        elif value.state is State.COMPLETE_COMMIT:
            self._commits.setdefault(before, None)

    def committed(self, producer_id: int, epoch: int, partition: TopicPartition) -> bool:
        """Whether what this producer has written there in this epoch is known to have committed."""
        key = (producer_id, epoch)
        if key not in self._commits or key in self._shared:
            return False
        partitions = self._commits[key]
        return partitions is None or partition in partitions
