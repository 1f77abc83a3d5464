"""The values of all transactional ids: memory and `__transaction_state`, changed together.

The coordinator decides (`moves`) and calls `change`, which is the only way to write a value. Whoever
changes one must say which value it has seen, and in the same step it is looked whether that still
stands: nobody can overwrite what was decided meanwhile, however long it has waited in between. The new
value goes to memory and to the log at once, so both have the same order; it counts when it is durable.
What cannot even be appended changes nothing, here as in the log. If the disk refuses a write later, the
ids of that partition go back to what its log says, and no others: those may have changes on their way to
the disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from kio.schema.errors import ErrorCode

from headwater.broker.groups.cursor import BadRecord
from headwater.broker.partition import Partition
from headwater.broker.transactions import records
from headwater.broker.transactions.state_topic import NAME, StateTopic
from headwater.broker.transactions.transaction import Transaction
from headwater.log.partition import StorageFailed

logger = logging.getLogger("headwater.broker")

Written = tuple[Partition, int]
"""Durable once this partition is durable up to this offset."""


class Overtaken(Exception):
    """Somebody else has changed the value since it was looked at."""


class StateManager:
    """The one owner of transactions' values."""

    def __init__(
        self,
        store: StateTopic,
        *,
        prepared: Callable[[str], None],
        lost: Callable[[], None],
    ) -> None:
        """`prepared` hears of ids whose transaction has to be ended, `lost` that values went back."""
        self.values: dict[str, Transaction] = {}
        self.store = store
        self._prepared = prepared
        self._lost = lost
        self._written: dict[str, Written] = {}
        """Where the newest value of each id was appended, while that may not be durable."""

    def load(self) -> None:
        """Read everything that is durable."""
        self.values = _read(self.store.replay())
        self._written.clear()

    # ---- writing -------------------------------------------------------------------------------

    def change(self, name: str, seen: Transaction | None, value: Transaction | None) -> Written:
        """Put `value` (None: forget the id) in the place of `seen`; on its way to the disk.

        Raises Overtaken if `seen` is no longer the value, StorageFailed if the disk refuses.
        """
        if self.values.get(name) is not seen:
            raise Overtaken(name)
        content = None if value is None else records.value(value)
        written = self.store.append(name, records.key(name), content)
        self._written[name] = written
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value
        partition, next_offset = written
        partition.when_durable(next_offset, lambda error: self._settled(name, written, error))
        if value is not None and value.is_prepared:
            self._prepared(name)  # here, because whoever asked for it may go away
        return written

    def _settled(self, name: str, written: Written, error: Exception | None) -> None:
        """The disk has taken a value, or refused it: then all that was not durable is gone."""
        if self._written.get(name) is written:
            del self._written[name]
            if error is not None:
                self._go_back(name, error)

    def _go_back(self, name: str, error: Exception) -> None:
        """To what the log of this id's partition says."""
        logger.error("the transaction coordinator could not write to its log: %s", error)
        number = self.store.number_of(name)
        for values in (self.values, self._written):
            for each in [each for each in values if self.store.number_of(each) == number]:
                del values[each]
        self.values |= _read(self.store.replay_one(number))
        self._lost()

    # ---- waiting -------------------------------------------------------------------------------

    def written(self, name: str) -> Written | None:
        """What must be durable before the newest value of this id counts; None: it does."""
        return self._written.get(name)

    async def durable(self, name: str) -> ErrorCode:
        """Wait until the newest value of this id is durable."""
        written = self._written.get(name)
        if written is None:
            return ErrorCode.none
        partition, next_offset = written
        try:
            await partition.durable(next_offset)
        except StorageFailed:
            return ErrorCode.coordinator_not_available
        return ErrorCode.none


def _read(entries: Iterable[tuple[bytes, bytes | None]]) -> dict[str, Transaction]:
    found: dict[str, Transaction] = {}
    for key, value in entries:
        try:
            name = records.read_key(key)
            if name is None:
                continue
            if value is None:
                found.pop(name, None)
            else:
                found[name] = records.read_value(name, value)
        except BadRecord as error:
            logger.error("a record of %s cannot be read: %s", NAME, error)
    return found
