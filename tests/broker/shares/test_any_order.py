"""Any order of events, against a model that keeps one dict entry per record and no runs.

The log of changes is kept beside: at every step, what it tells must be what the machine would find
after a restart.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from headwater.broker.shares.state import (
    Ack,
    AckError,
    Acknowledgement,
    Batch,
    Change,
    Limits,
    SharePartition,
    State,
)

LIMITS = Limits(lock_ms=10, deliveries_max=2, in_flight=30)
MEMBERS = st.sampled_from(["a", "b", "c"])
SIZES = (3, 1, 5, 2, 4, 1, 1, 6, 3, 2) * 4


@dataclass
class Record:
    state: State = State.AVAILABLE
    deliveries: int = 0
    member: str = ""
    deadline: int = 0
    writing: bool = False


class Sharing(RuleBasedStateMachine):
    """Members come and go, locks end, writes take their time or fail."""

    def __init__(self) -> None:
        super().__init__()
        self.share = SharePartition(0)
        self.records: dict[int, Record] = {}
        self.log: list[Change] = []
        self.pending: list[list[Change]] = []
        self.now = 0
        self.batches: list[Batch] = []
        first = 0
        for size in SIZES:
            self.batches.append(Batch(first, first + size - 1))
            first += size

    def _of(self, offset: int) -> Record:
        return self.records.setdefault(offset, Record())

    # ---- what may happen ---------------------------------------------------------------------------

    @rule(member=MEMBERS, most=st.integers(1, 12), exactly=st.booleans(), reach=st.integers(1, 5))
    def fetch(self, member: str, most: int, exactly: bool, reach: int) -> None:
        offset = self.share.next_offset(LIMITS)
        if offset is None:
            return
        there = [batch for batch in self.batches if batch.last >= offset][:reach]
        got = self.share.acquire(
            member,
            there,
            LIMITS,
            self.now,
            read_from=offset,
            records_max=most,
            batch_size=5,
            exactly=exactly,
        )
        total = 0
        for first, last, deliveries in got:
            total += last - first + 1
            for number in range(first, last + 1):
                record = self._of(number)
                assert record.state is State.AVAILABLE, "it was somebody else's"
                assert not record.writing
                record.state, record.member = State.ACQUIRED, member
                record.deliveries, record.deadline = (
                    record.deliveries + 1,
                    self.now + LIMITS.lock_ms,
                )
                assert record.deliveries == deliveries <= LIMITS.deliveries_max
        assert total <= most or not exactly
        assert total, "what is available must be delivered"

    @rule(
        member=MEMBERS,
        first=st.integers(0, 60),
        kinds=st.lists(st.sampled_from(list(Ack)), min_size=1, max_size=6),
        one=st.booleans(),
        outcome=st.sampled_from(["durable", "later", "failed"]),
    )
    def acknowledge(
        self, member: str, first: int, kinds: list[Ack], one: bool, outcome: str
    ) -> None:
        first += self.share.start - 3
        last = first + len(kinds) - 1
        said = kinds[:1] if one else kinds
        offsets = [n for n in range(first, last + 1) if n >= self.share.start]
        mine = last < self.share.end and all(
            self._of(n).state is State.ACQUIRED
            and self._of(n).member == member
            and not self._of(n).writing
            for n in offsets
        )
        try:
            changes = self.share.acknowledge(
                member, [Acknowledgement(first, last, said)], LIMITS, self.now
            )
        except AckError:
            assert not mine
            return
        assert mine or last < self.share.start
        for n in offsets:
            kind = said[0] if one else kinds[n - first]
            if kind is Ack.RENEW:
                self._of(n).deadline = self.now + LIMITS.lock_ms
            else:
                self._of(n).writing = True
        self._written(changes, outcome)

    @precondition(lambda self: any(run.state is State.ACQUIRED for run in self.share.runs))
    @rule(data=st.data(), outcome=st.sampled_from(["durable", "durable", "later", "failed"]))
    def settle_what_is_held(self, data: st.DataObject, outcome: str) -> None:
        """Some of a run that somebody holds, as it should be."""
        held = [run for run in self.share.runs if run.state is State.ACQUIRED]
        run = data.draw(st.sampled_from(held))
        first = data.draw(st.integers(run.first, run.last))
        last = data.draw(st.integers(first, min(run.last, first + 5)))
        kinds = data.draw(
            st.lists(
                st.sampled_from([Ack.ACCEPT, Ack.ACCEPT, Ack.RELEASE, Ack.REJECT, Ack.RENEW]),
                min_size=last - first + 1,
                max_size=last - first + 1,
            )
        )
        before = self.share.start
        self.acknowledge(run.member, first - before + 3, kinds, False, outcome)

    def _written(self, changes: list[Change], outcome: str) -> None:
        if outcome == "later":
            self.pending.append(changes)
        elif outcome == "durable":
            self._commit(changes)
        else:
            self.share.undo(changes, self.now + 5)
            for change in changes:
                for n in range(change.first, change.last + 1):
                    self._of(n).writing, self._of(n).deadline = False, self.now + 5

    def _commit(self, changes: list[Change]) -> None:
        self.log += changes
        for change in changes:
            for n in range(change.first, change.last + 1):
                self.records[n] = Record(change.state, change.deliveries)
        self.share.commit(changes)

    @precondition(lambda self: self.pending)
    @rule(data=st.data())
    def finish_a_write(self, data: st.DataObject) -> None:
        index = data.draw(st.integers(0, len(self.pending) - 1))
        self._commit(self.pending.pop(index))

    @rule(member=MEMBERS)
    def leave(self, member: str) -> None:
        self._given_back(*self.share.release(member, LIMITS))
        assert not any(
            r.member == member and r.state is State.ACQUIRED and not r.writing
            for n, r in self.records.items()
            if n >= self.share.start
        )

    @rule(later=st.integers(1, 12))
    def wait(self, later: int) -> None:
        self.now += later
        self._given_back(*self.share.expire(LIMITS, self.now))
        deadline = self.share.next_deadline()
        assert deadline is None or deadline > self.now

    def _given_back(self, freed: list[Change], given_up: list[Change]) -> None:
        for change in freed:
            for n in range(change.first, change.last + 1):
                record = self._of(n)
                assert record.state is State.ACQUIRED
                assert record.deliveries < LIMITS.deliveries_max
                self.records[n] = Record(State.AVAILABLE, record.deliveries)
        self.log += freed
        for change in given_up:
            for n in range(change.first, change.last + 1):
                assert self._of(n).deliveries == LIMITS.deliveries_max
                self._of(n).writing = True
        if given_up:
            self.pending.append(given_up)

    # ---- what must always hold ---------------------------------------------------------------------

    @invariant()
    def every_record_is_as_the_model_says(self) -> None:
        follows = self.share.start
        for run in self.share.runs:
            assert run.first == follows
            follows = run.last + 1
            for n in range(run.first, run.last + 1):
                record = self._of(n)
                said = (run.state, run.deliveries, run.member, run.writing)
                assert said == (record.state, record.deliveries, record.member, record.writing)
                if run.state is State.ACQUIRED:
                    assert run.deadline == record.deadline
        assert follows == self.share.end
        for n in range(self.share.start):
            assert self._of(n).state.is_final
            assert not self._of(n).writing

    @invariant()
    def the_start_is_the_first_record_that_is_not_settled(self) -> None:
        for run in self.share.runs:
            assert not run.state.is_final or run.writing or run.first > self.share.start
            break

    @invariant()
    def runs_of_one_kind_are_joined_and_bounded(self) -> None:
        neighbours = list(self.share.runs)
        for one, two in pairwise(neighbours):
            assert not one.is_like(two)
        assert self.share.end - self.share.start < LIMITS.in_flight + max(SIZES)

    @invariant()
    def the_log_tells_what_a_restart_would_find(self) -> None:
        restored = SharePartition(0)
        restored.restore(self.log)
        assert restored.start == self.share.start
        told = _each(restored.durable())
        live = _each(self.share.durable())
        for n in range(self.share.start, self.share.end):
            now = self._of(n)
            expected = told.get(n, (State.AVAILABLE, 0))
            assert live[n] == expected, (n, now)

    @invariant()
    def a_snapshot_is_the_same_state(self) -> None:
        again = SharePartition(self.share.start, self.share.durable())
        assert again.durable() == self.share.durable()
        assert (again.start, again.end) == (self.share.start, self.share.end)


def _each(changes: list[Change]) -> dict[int, tuple[State, int]]:
    return {
        n: (change.state, change.deliveries)
        for change in changes
        for n in range(change.first, change.last + 1)
    }


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
