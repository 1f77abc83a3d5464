"""Transactions: what `__transaction_state` says, against what is open in the partitions.

`check` shows it every batch of the state topic and asks it once all partitions are through. A transaction
that is open in a partition holds its last stable offset: readers with read_committed stand still there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from headwater.broker.groups.cursor import BadRecord
from headwater.broker.inspection.decisions import Decisions
from headwater.broker.inspection.facts import Began, Facts, Hidden
from headwater.broker.inspection.findings import Finding, Severity
from headwater.broker.inspection.segments import Visitor
from headwater.broker.inspection.testimony import HashedKeys
from headwater.broker.internal_topics import TRANSACTION_STATE as NAME
from headwater.broker.transactions import records
from headwater.broker.transactions.transaction import COMPLETED, State, Transaction
from headwater.broker.transactions.transitions import is_overdue
from headwater.log.checkpoints import TopicPartition
from headwater.record.batch import BatchHeader
from headwater.record.records import Record

BAD_SHOWN = 20


@dataclass(slots=True)
class StateView:
    """What the records of a state topic say, one after the other."""

    bad: list[tuple[int, int, str]] = field(default_factory=list)
    """(partition, offset, why) of records that cannot be understood."""
    keys: HashedKeys = field(default_factory=HashedKeys)

    def visitor(self, number: int) -> Visitor:
        def visit(_header: BatchHeader, found: list[Record], _data: memoryview) -> None:
            for record in found:
                try:
                    self.keys.seen(number, self._apply(record))
                except BadRecord as error:
                    self.bad.append((number, record.offset, str(error)))

        return visit

    def _apply(self, record: Record) -> str | None:
        """What its partition is a hash of, if that is known. Raises BadRecord."""
        raise NotImplementedError


@dataclass(slots=True)
class TransactionsView(StateView):
    """The newest value of every transactional id."""

    known: dict[str, Transaction] = field(default_factory=dict)
    decisions: Decisions = field(default_factory=Decisions)

    def _apply(self, record: Record) -> str | None:
        name = records.read_key(record.key or b"")
        if name is not None and record.value is None:
            self.known.pop(name, None)
        elif name is not None and record.value is not None:
            self.known[name] = records.read_value(name, record.value)
            self.decisions.note(self.known[name])
        return name


def inspect(
    view: TransactionsView, facts: Mapping[TopicPartition, Facts], now_ms: int
) -> Iterator[Finding]:
    yield from bad_records(
        NAME, view.bad, "the broker leaves it out: its transactional id starts over"
    )
    owners = {known.producer_id: known for known in view.known.values()}
    for key, each in facts.items():
        for producer_id, began in each.began.items():
            yield _open(each, producer_id, began, owners.get(producer_id), now_ms)
        for hidden in each.hidden:
            yield from _hidden(each, hidden, owners.get(hidden.producer_id))
        if each.idle_markers and not each.gaps:
            yield _idle_markers(each)
        del key
    for known in view.known.values():
        yield from _without_partition(known, facts)


def _open(
    facts: Facts, producer_id: int, began: Began, known: Transaction | None, now_ms: int
) -> Finding:
    """One transaction that is open in one partition."""
    place = facts.place
    who = f"producer {producer_id} (epoch {began.epoch}"
    who += f", transactional id {known.id!r})" if known is not None else ")"
    since = _time(began.timestamp)
    where = f"offset {began.first_offset} of {place.topic}-{place.number}"
    stand = f"readers with read_committed stand still at {where}"
    severity = Severity.NOTE
    if known is not None and known.is_prepared and place.key in known.partitions:
        how = "commits" if known.commits else "aborts"
        kind, what = (
            "transaction-undone",
            f"the transaction of {who} {how}; its marker is missing here",
        )
        means = f"{stand} until the next start, which writes the marker"
    elif known is not None and known.state is State.ONGOING and not began.may_have_committed:
        kind, what = "transaction-open", f"a transaction of {who} is open since {since}"
        late = is_overdue(known, now_ms)
        limit = f"{known.timeout_ms / 1000:,.0f} s"
        means = f"{stand}; its time-out of {limit} is over, and the next start aborts it"
        if not late:
            means = f"{stand} until it ends, or its time-out of {limit} is over"
    elif began.hole is not None and (known is None or known.state is not State.COMPLETE_ABORT):
        is_sure = known is not None and known.state is State.COMPLETE_COMMIT
        since = f"{stand} until a start or its time-out aborts it"
        return _lost_marker(facts, producer_id, began, since, is_sure=is_sure)
    else:
        kind, severity = "transaction-unknown", Severity.NUISANCE
        what = f"a transaction of {who} is open since {since}, and the coordinator does not know it"
        if known is not None and known.state in COMPLETED:
            what = f"a transaction of {who} is open since {since}; the coordinator has ended it"
        means = f"{stand} until the next start, which aborts it"
    return Finding(
        kind,
        severity,
        place.where(),
        what,
        means,
        place.topic,
        place.number,
        began.first_offset,
        facts.end_offset - 1,
    )


def _hidden(facts: Facts, hidden: Hidden, known: Transaction | None) -> Iterator[Finding]:
    """A transaction that had ended in a hole and was aborted by a later marker: that of the same
    producer's next transaction, or of a start that found it open."""
    began = hidden.began
    was_aborted_later = (
        known is not None
        and known.state is State.COMPLETE_COMMIT
        and known.updated_ms < hidden.timestamp
    )
    if began.may_have_committed or was_aborted_later:
        since = "a later marker has aborted it"
        yield _lost_marker(facts, hidden.producer_id, began, since, is_sure=was_aborted_later)


def _lost_marker(
    facts: Facts, producer_id: int, began: Began, since: str, *, is_sure: bool
) -> Finding:
    """Whether it had committed, only the marker or the coordinator could tell."""
    place, hole = facts.place, began.hole
    assert hole is not None
    at = f"offset {hole[0]}" if hole[0] == hole[1] else f"the offsets {hole[0]} to {hole[1]}"
    return Finding(
        "commit-marker-lost",
        Severity.LOSS,
        place.where(),
        f"the transaction of producer {producer_id} at the offsets {began.first_offset} to "
        f"{began.last_offset} has {'' if is_sure else 'perhaps '}committed, and its marker is lost: "
        f"{at} cannot be read",
        f"readers with read_committed do not see its records at these offsets ({since}); readers with "
        f"read_uncommitted do: take them from there, and write them again",
        place.topic,
        place.number,
        began.first_offset,
        began.last_offset,
    )


def _idle_markers(facts: Facts) -> Finding:
    place = facts.place
    return Finding(
        "markers-without-records",
        Severity.NOTE,
        place.where(),
        f"{facts.idle_markers:,} markers end a transaction that has written nothing here",
        "nobody notices; a producer that writes elsewhere, and a repeated marker, leave such",
        place.topic,
        place.number,
    )


def _without_partition(
    known: Transaction, facts: Mapping[TopicPartition, Facts]
) -> Iterator[Finding]:
    """A transaction that waits for partitions that are not there."""
    if known.state is not State.ONGOING and not known.is_prepared:
        return
    missing = sorted(each for each in known.partitions if each not in facts)
    if missing:
        names = ", ".join(f"{topic}-{number}" for topic, number in missing[:10])
        yield Finding(
            "transaction-without-partition",
            Severity.NUISANCE,
            NAME,
            f"transaction {known.id!r} ({known.state.label}) has written to {names}, which are not there",
            "it ends in the other partitions all the same",
            missing[0][0],
            missing[0][1],
        )


def bad_records(name: str, bad: list[tuple[int, int, str]], means: str) -> Iterator[Finding]:
    """Records of an internal topic whose bytes cannot be understood."""
    for number, offset, why in bad[:BAD_SHOWN]:
        yield Finding(
            "state-record-bad",
            Severity.NUISANCE,
            f"{name}-{number}",
            f"the record at offset {offset} cannot be understood: {why}",
            means,
            name,
            number,
            offset,
            offset,
        )
    if len(bad) > BAD_SHOWN:
        yield Finding(
            "state-record-bad",
            Severity.NUISANCE,
            name,
            f"{len(bad) - BAD_SHOWN:,} more records cannot be understood",
            means,
            name,
        )


def _time(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return f"timestamp {timestamp_ms}"
