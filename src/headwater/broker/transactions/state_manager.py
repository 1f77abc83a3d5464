"""The values of all transactional ids: memory and `__transaction_state`, changed together.

The coordinator decides (`transitions`) and calls `change`, which is the only way to write a value. Whoever
changes one must say which value it has seen, and in the same step it is looked whether that still
stands: nobody can overwrite what was decided meanwhile, however long it has waited in between. The new
value goes to memory and to the log at once, so both have the same order; it counts when it is durable.
What cannot even be appended changes nothing, here as in the log. If the disk refuses a write later, the
ids of that partition go back to what its log says, and no others: those may have changes on their way to
the disk. What it says is kept here until then: the log of a disk that refuses may not be readable either,
and reading all of it would hold up everybody. Beside it, how long each is open: `Timeouts`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker.clock import Clock
from headwater.broker.groups.cursor import BadRecord
from headwater.broker.internal_topic import InternalTopic, Staged
from headwater.broker.transactions import records, transitions
from headwater.broker.transactions.transaction import State, Transaction
from headwater.log.partition import StorageFailed
from headwater.log.replay import Batch

logger = logging.getLogger("headwater.broker")


class Overtaken(Exception):
    """Somebody else has changed the value since it was looked at."""


class StateManager:
    """The one owner of transactions' values."""

    def __init__(
        self,
        store: InternalTopic,
        has_room: Callable[[int], bool],
        *,
        prepared: Callable[[str], None],
        lost: Callable[[], None],
    ) -> None:
        """`has_room`: whether transactions may have so many partitions more, all together. `prepared` hears
        of ids whose transaction has to be ended, `lost` that values went back."""
        self.values: dict[str, Transaction] = {}
        self.store = store
        self._has_room = has_room
        self._prepared = prepared
        self._lost = lost
        self._written: dict[str, Staged] = {}
        """Where the newest value of each id was appended, while that may not be durable."""
        self._durable: dict[str, Transaction | None] = {}
        """The newest durable value of each of these ids."""
        self.partitions = 0
        """Of all transactions together."""

    def load(self) -> None:
        """Read everything that is durable."""
        self.values = self._read(batch for _, batch in self.store.replay())
        self._written.clear()
        self._durable.clear()
        self._count()

    def _count(self) -> None:
        self.partitions = sum(map(_partitions, self.values.values()))

    def _read(self, found: Iterable[Batch]) -> dict[str, Transaction]:
        values: dict[str, Transaction] = {}
        for record in (record for batch in found for record in batch.records):
            try:
                name = None if record.key is None else records.read_key(record.key)
                if name is None:
                    continue
                if record.value is None:
                    values.pop(name, None)
                else:
                    values[name] = records.read_value(name, record.value)
            except BadRecord as error:
                logger.error("a record of %s cannot be read: %s", self.store.name, error)
        return values

    # ---- writing -------------------------------------------------------------------------------

    def change(self, name: str, seen: Transaction | None, value: Transaction | None) -> Staged:
        """Put `value` (None: forget the id) in the place of `seen`; on its way to the disk.

        Raises Overtaken if `seen` is no longer the value, StorageFailed if the disk refuses, or if there is
        no room for more partitions.
        """
        if self.values.get(name) is not seen:
            raise Overtaken(name)
        more = _partitions(value) - _partitions(seen)
        if more > 0 and not self._has_room(more):
            raise StorageFailed("open transactions have more partitions than there is room for")
        content = None if value is None else records.value(value)
        entry = (records.key(name), content)
        written = self.store.stage(self.store.partition_of(name), [entry])
        self._written[name] = written
        self._durable.setdefault(name, seen)
        self.partitions += more
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value
        partition, next_offset = written
        partition.when_durable(
            next_offset, lambda error: self._settled(name, written, value, error)
        )
        if value is not None and value.is_prepared:
            self._prepared(name)  # here, because whoever asked for it may go away
        return written

    def _settled(
        self, name: str, written: Staged, value: Transaction | None, error: Exception | None
    ) -> None:
        """The disk has taken a value, or refused it: then all that was not durable is gone."""
        if self._written.get(name) is not written:
            if error is None and name in self._written:
                self._durable[name] = value
        elif error is None:
            del self._written[name], self._durable[name]
        else:
            self._go_back(name, error)

    def _go_back(self, name: str, error: Exception) -> None:
        """To what the log of this id's partition says."""
        logger.error("the transaction coordinator could not write to its log: %s", error)
        number = self.store.number_of(name)
        for each in [each for each in self._written if self.store.number_of(each) == number]:
            del self._written[each]
            durable = self._durable.pop(each)
            if durable is None:
                self.values.pop(each, None)
            else:
                self.values[each] = durable
        self._count()
        self._lost()

    # ---- waiting -------------------------------------------------------------------------------

    def written(self, name: str) -> Staged | None:
        """What must be durable before the newest value of this id counts; None: it does."""
        return self._written.get(name)

    async def durable(self, name: str) -> ErrorCode:
        """Wait until the newest value of this id is durable."""
        written = self._written.get(name)
        if written is None:
            return ErrorCode.none
        try:
            await written.durable()
        except StorageFailed:
            return ErrorCode.coordinator_not_available
        return ErrorCode.none


def _partitions(value: Transaction | None) -> int:
    return 0 if value is None else len(value.partitions)


# ---- time --------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    producer_id: int
    start_ms: int
    """What the value says."""
    since_ms: int
    """By the monotonic clock."""


class Timeouts:
    """How long transactions have been open, by a clock that nobody sets: readers wait for their end.

    When one began, its value says in the machine's time, and that may have been wrong by years then, or may
    be now; so from the first look on its age is counted by the monotonic clock. At the first look it is what
    the machine's time says, and never less than nothing.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[str, _Seen] = {}

    def is_overdue(self, known: Transaction) -> bool:
        """Whether it has been open for longer than its producer allowed."""
        if known.state is not State.ONGOING:
            self._seen.pop(known.id, None)
            return False
        open_ms = int(self._clock.monotonic() * 1000) - self._first_look(known).since_ms
        return transitions.is_overdue(known, known.start_ms + open_ms)

    def forget_but(self, transactions: Mapping[str, Transaction]) -> None:
        """Ids that are no more."""
        for name in self._seen.keys() - transactions.keys():
            del self._seen[name]

    def _first_look(self, known: Transaction) -> _Seen:
        seen = self._seen.get(known.id)
        if seen is None or seen[:2] != (known.producer_id, known.start_ms):
            age_ms = max(0, self._clock.now_ms() - known.start_ms)
            since_ms = int(self._clock.monotonic() * 1000) - age_ms
            seen = self._seen[known.id] = _Seen(known.producer_id, known.start_ms, since_ms)
        return seen
