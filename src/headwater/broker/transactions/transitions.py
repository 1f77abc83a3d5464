"""The rules of transactions, as pure functions: a value and a request give the next value or an error.

`coordinator` calls them, writes what comes out to `__transaction_state`, and answers when that is
durable. No clock, no disk, no waiting in here, so that every sequence of steps can be rehearsed.

With transaction version 2 (KIP-890) each transaction has an epoch of its own: the step that decides
how it ends raises the epoch, and the markers carry the raised one. A batch that was on its way for too
long is then of an older epoch, and refused, instead of ending up in the next transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker.transactions.transaction import (
    COMPLETED,
    EPOCH_MAX,
    NO_EPOCH,
    NO_ID,
    State,
    TopicPartition,
    Transaction,
)

OK = ErrorCode.none
EPOCH_BUMP_VERSION = 2


class Transition(NamedTuple):
    """What follows from a request: an error, or a value to be written (None: all is as it should be)."""

    error: ErrorCode = OK
    value: Transaction | None = None


class Producer(NamedTuple):
    """Who a request says it is."""

    id: int
    epoch: int


# ---- a producer begins -----------------------------------------------------------------------------


def needs_new_id(known: Transaction | None, expected: Producer | None) -> bool:
    """Whether `init` has to be given a fresh producer id."""
    if known is None:
        return True
    matches = expected is None or expected.epoch == known.epoch
    if known.epoch >= EPOCH_MAX and expected is not None:  # a retry would get the last epoch
        matches = matches or expected.epoch == known.last_epoch
    return known.is_exhausted and matches and not known.is_prepared


def init(
    known: Transaction | None,
    name: str,
    timeout_ms: int,
    expected: Producer | None,
    new_id: int,
    now_ms: int,
) -> Transition:
    """A producer asks for its id and epoch, which fences those that had them before (KIP-360).

    An ongoing transaction is aborted first: CONCURRENT_TRANSACTIONS together with a value.
    """
    if known is None:
        fresh = Transaction(name, new_id, 0, timeout_ms=timeout_ms, updated_ms=now_ms)
        return Transition(value=fresh)
    if expected is not None and not _may_continue(known, expected):
        return Transition(ErrorCode.producer_fenced)
    if known.is_prepared:
        return Transition(ErrorCode.concurrent_transactions)
    if known.state is State.ONGOING:
        return Transition(ErrorCode.concurrent_transactions, fence(known, now_ms))
    if needs_new_id(known, expected):
        return Transition(value=_rotated(known, timeout_ms, expected, new_id, now_ms))
    return _next_epoch(known, timeout_ms, expected, now_ms)


def _may_continue(known: Transaction, expected: Producer) -> bool:
    """The second case is a retry whose answer, with a new id, was lost."""
    return known.producer_id == expected.id or (
        known.previous_producer_id == expected.id and expected.epoch >= EPOCH_MAX - 1
    )


def _rotated(
    known: Transaction, timeout_ms: int, expected: Producer | None, new_id: int, now_ms: int
) -> Transaction:
    return _emptied(
        known,
        producer_id=new_id,
        previous_producer_id=known.producer_id,
        epoch=0,
        last_epoch=known.epoch if expected is not None else NO_EPOCH,
        timeout_ms=timeout_ms,
        updated_ms=now_ms,
    )


def _next_epoch(
    known: Transaction, timeout_ms: int, expected: Producer | None, now_ms: int
) -> Transition:
    if expected is None:
        epoch, last = known.epoch + 1, NO_EPOCH
    elif expected.epoch == known.epoch:
        epoch, last = known.epoch + 1, known.epoch
    elif expected.epoch == known.last_epoch:
        epoch, last = known.epoch, known.last_epoch  # a retry: it was raised already
    else:
        return Transition(ErrorCode.producer_fenced)
    return Transition(
        value=_emptied(
            known, epoch=epoch, last_epoch=last, timeout_ms=timeout_ms, updated_ms=now_ms
        )
    )


def _emptied(known: Transaction, **changes: int) -> Transaction:
    value = replace(
        known, state=State.EMPTY, partitions=frozenset(), start_ms=-1, next_producer_id=NO_ID
    )
    return replace(value, **changes)  # type: ignore[arg-type]


# ---- partitions ------------------------------------------------------------------------------------


def add(
    known: Transaction | None,
    producer: Producer,
    partitions: Iterable[TopicPartition],
    version: int,
    now_ms: int,
) -> Transition:
    """The producer will write, or is writing, to these partitions."""
    error = _refusal(known, producer)
    if error is not OK or known is None:
        return Transition(error)
    wanted = frozenset(partitions)
    if known.state is State.ONGOING:
        if wanted <= known.partitions:
            return Transition()
        return Transition(
            value=replace(
                known, partitions=known.partitions | wanted, updated_ms=now_ms, version=version
            )
        )
    return Transition(
        value=replace(
            known,
            state=State.ONGOING,
            partitions=wanted,
            start_ms=now_ms,
            updated_ms=now_ms,
            version=version,
        )
    )


def verify(known: Transaction | None, producer: Producer, partition: TopicPartition) -> ErrorCode:
    """May this producer write to this partition now? For clients that add partitions themselves."""
    error = _refusal(known, producer)
    if error is not OK or known is None:
        return error
    return OK if partition in known.partitions else ErrorCode.transaction_abortable


def _refusal(known: Transaction | None, producer: Producer) -> ErrorCode:
    if known is None or known.producer_id != producer.id:
        return ErrorCode.invalid_producer_id_mapping
    if known.epoch != producer.epoch or producer.epoch >= EPOCH_MAX:  # the last one is nobody's
        return ErrorCode.producer_fenced
    return ErrorCode.concurrent_transactions if known.is_prepared else OK


# ---- the end ---------------------------------------------------------------------------------------


def needs_next_id(known: Transaction | None, version: int) -> bool:
    """Whether `end` has to be given a fresh producer id, for the transaction after this one."""
    return known is not None and version >= EPOCH_BUMP_VERSION and known.is_exhausted


def end(
    known: Transaction | None,
    producer: Producer,
    commit: bool,
    version: int,
    next_id: int,
    now_ms: int,
) -> Transition:
    """The producer commits or aborts. No value and no error: a retry of what is done."""
    if known is None:
        return Transition(ErrorCode.invalid_producer_id_mapping)
    if version >= EPOCH_BUMP_VERSION:
        return _end_with_bump(known, producer, commit, version, next_id, now_ms)
    if known.producer_id != producer.id:
        return Transition(ErrorCode.invalid_producer_id_mapping)
    if known.epoch != producer.epoch:
        return Transition(ErrorCode.producer_fenced)
    if known.state is State.ONGOING:
        return Transition(value=_prepared(known, commit, version, next_id, now_ms))
    wanted = (State.PREPARE_COMMIT, State.COMPLETE_COMMIT)
    if not commit:
        wanted = (State.PREPARE_ABORT, State.COMPLETE_ABORT)
    if known.state not in wanted:
        return Transition(ErrorCode.invalid_txn_state)
    return Transition(ErrorCode.concurrent_transactions if known.is_prepared else OK)


def _end_with_bump(
    known: Transaction, producer: Producer, commit: bool, version: int, next_id: int, now_ms: int
) -> Transition:
    same = producer.epoch == known.epoch
    is_versioned = known.version >= EPOCH_BUMP_VERSION  # else no end has raised its epoch
    bumped = is_versioned and producer.epoch + 1 == known.epoch
    last = Producer(known.previous_producer_id, EPOCH_MAX - 1)
    overflown = is_versioned and known.epoch == 0 and producer == last
    if known.producer_id != producer.id and not overflown:
        return Transition(ErrorCode.invalid_producer_id_mapping)
    if known.is_prepared:
        if not bumped:
            return Transition(ErrorCode.producer_fenced)
        return Transition(
            ErrorCode.concurrent_transactions
            if known.commits == commit
            else ErrorCode.invalid_txn_state
        )
    is_retry = known.state in COMPLETED and (bumped or overflown)
    if not same and not is_retry:
        return Transition(ErrorCode.producer_fenced)
    if is_retry:
        done = known.state is State.COMPLETE_COMMIT
        return Transition(OK if done == commit else ErrorCode.invalid_txn_state)
    if known.state is not State.ONGOING and commit:
        return Transition(ErrorCode.invalid_txn_state)
    return Transition(value=_prepared(known, commit, version, next_id, now_ms))


def _prepared(
    known: Transaction, commit: bool, version: int, next_id: int, now_ms: int
) -> Transaction:
    value = replace(
        known,
        state=State.PREPARE_COMMIT if commit else State.PREPARE_ABORT,
        # An abort without any partition is allowed from version 2 on, and then begins here.
        start_ms=known.start_ms if known.state is State.ONGOING else now_ms,
        updated_ms=now_ms,
        version=version,
    )
    if version >= EPOCH_BUMP_VERSION:
        raised = min(known.epoch + 1, EPOCH_MAX)
        value = replace(value, epoch=raised, last_epoch=known.epoch, next_producer_id=next_id)
    return value


def fence(known: Transaction, now_ms: int) -> Transaction:
    """Abort an ongoing transaction on somebody else's behalf: with a higher epoch, so that the
    producer's late batches are refused. It may ask for that epoch and go on, unless somebody else
    has asked first (KIP-588)."""
    assert known.state is State.ONGOING
    return replace(
        known,
        state=State.PREPARE_ABORT,
        epoch=min(known.epoch + 1, EPOCH_MAX),
        last_epoch=known.epoch,
        updated_ms=now_ms,
    )


def catch_up(
    known: Transaction, epoch: int, open_in: frozenset[TopicPartition], now_ms: int
) -> Transaction:
    """Partitions have seen this producer in a later epoch: values were lost, or somebody wrote under its id.
    What is open in that epoch is aborted, since how it was to end nobody knows; an end that was decided
    stands. How the transaction before this epoch ended the value no longer says: it has no version."""
    raised = replace(known, epoch=epoch, last_epoch=NO_EPOCH, version=0, updated_ms=now_ms)
    if not open_in and known.state is not State.ONGOING:
        return raised
    ongoing = replace(
        raised, state=State.ONGOING, partitions=known.partitions | open_in, start_ms=now_ms
    )
    return fence(ongoing, now_ms)


def complete(known: Transaction, now_ms: int) -> Transaction:
    """All markers are durable."""
    assert known.is_prepared
    value = replace(
        known,
        state=State.COMPLETE_COMMIT if known.commits else State.COMPLETE_ABORT,
        partitions=frozenset(),
        updated_ms=now_ms,
    )
    if known.next_producer_id != NO_ID:
        value = replace(
            value,
            producer_id=known.next_producer_id,
            previous_producer_id=known.producer_id,
            next_producer_id=NO_ID,
            epoch=0,
        )
    return value


# ---- time ------------------------------------------------------------------------------------------


def is_overdue(known: Transaction, now_ms: int) -> bool:
    """Has the transaction been open for longer than its producer allowed?"""
    return known.state is State.ONGOING and known.start_ms + known.timeout_ms < now_ms


def is_expired(known: Transaction, now_ms: int, expiration_ms: int) -> bool:
    """May a transactional id that nobody has used for so long be forgotten?"""
    idle = known.state in (State.EMPTY, *COMPLETED)
    return idle and known.updated_ms + expiration_ms <= now_ms
