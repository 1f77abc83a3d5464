"""The rules of transactions, and a seeded life of clients, crashes and retries that must obey them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.inspection.decisions import Decisions
from headwater.broker.transactions import hanging_transactions, records, transitions
from headwater.broker.transactions.transaction import (
    EPOCH_MAX,
    NO_ID,
    State,
    TopicPartition,
    Transaction,
)
from headwater.broker.transactions.transitions import Producer, Transition

PLACES: list[TopicPartition] = [("a", 0), ("a", 1), ("b", 0)]


def begun(epoch: int = 0, version: int = 2) -> Transaction:
    return Transaction(
        "t", 7, epoch, state=State.ONGOING, partitions=frozenset(PLACES), version=version
    )


def test_a_fence_at_the_last_epoch_leads_to_a_new_id() -> None:
    known = transitions.complete(transitions.fence(begun(EPOCH_MAX - 1), 1), 2)
    assert (known.epoch, known.producer_id) == (EPOCH_MAX, 7)
    assert transitions.needs_new_id(known, None)
    fresh = transitions.init(known, "t", 1000, None, 8, 3).value
    assert fresh is not None
    assert (fresh.producer_id, fresh.epoch, fresh.previous_producer_id) == (8, 0, 7)


def test_an_end_whose_epoch_overflowed_may_be_repeated() -> None:
    before = Producer(7, EPOCH_MAX - 1)
    prepared = transitions.end(begun(EPOCH_MAX - 1), before, True, 2, 8, 1).value
    assert prepared is not None
    assert (prepared.producer_id, prepared.epoch, prepared.next_producer_id) == (7, EPOCH_MAX, 8)
    done = transitions.complete(prepared, 2)
    assert (done.producer_id, done.epoch) == (8, 0)
    assert transitions.end(done, before, True, 2, 9, 3) == Transition()
    assert transitions.end(done, before, False, 2, 9, 3) == Transition(ErrorCode.invalid_txn_state)


def test_an_end_that_was_fenced_at_the_last_epoch_is_no_retry_of_what_came_after() -> None:
    """The new instance has a new id with epoch 0, as one has whose epoch overflowed; it ended its own."""
    zombie, fresh = Producer(7, EPOCH_MAX - 1), Producer(8, 0)
    known = transitions.complete(transitions.fence(begun(EPOCH_MAX - 1), 1), 2)
    known = transitions.init(known, "t", 1000, None, 8, 3).value or known
    known = transitions.add(known, fresh, PLACES, 0, 4).value or known
    known = transitions.end(known, fresh, True, 0, NO_ID, 5).value or known
    known = transitions.complete(known, 6)
    assert (known.producer_id, known.epoch, known.state) == (8, 0, State.COMPLETE_COMMIT)
    for commit in (True, False):
        told = transitions.end(known, zombie, commit, 2, 9, 7)
        assert told == Transition(ErrorCode.invalid_producer_id_mapping)


@pytest.mark.parametrize("version", [0, 2])
def test_a_prepared_transaction_takes_nothing_more(version: int) -> None:
    prepared = transitions.end(begun(), Producer(7, 0), True, version, NO_ID, 1).value
    assert prepared is not None
    me = Producer(7, prepared.epoch)
    busy = ErrorCode.concurrent_transactions
    assert transitions.add(prepared, me, PLACES, version, 2) == Transition(busy)
    assert transitions.verify(prepared, me, PLACES[0]) is busy
    assert transitions.init(prepared, "t", 1, None, NO_ID, 2) == Transition(busy)


def test_records_come_back_as_they_went() -> None:
    values = [
        begun(),
        Transaction("t", 7, 3, timeout_ms=5, updated_ms=9),
        replace(begun(5), previous_producer_id=6, next_producer_id=8, state=State.PREPARE_ABORT),
    ]
    for known in values:
        assert records.read_value("t", records.value(known)) == known
    assert records.read_key(records.key("täglich")) == "täglich"


# ---- a life --------------------------------------------------------------------------------------


@dataclass
class World:
    """Logs whose ends a crash may cut, clients that retry, and what they were told."""

    dice: Random
    state: list[Transaction] = field(default_factory=list)
    durable: int = 0
    data: dict[TopicPartition, list[tuple[str, int, int, int]]] = field(default_factory=dict)
    """(what, producer id, epoch, number of the transaction); durable once written."""
    ids: int = 100
    numbers: dict[tuple[int, int], int] = field(default_factory=dict)
    outcomes: dict[int, bool] = field(default_factory=dict)
    now: int = 0

    @property
    def known(self) -> Transaction | None:
        return self.state[-1] if self.state else None

    def write(self, value: Transaction | None, *, durable: bool = True) -> None:
        if value is not None:
            self.state.append(value)
        if durable:
            self.durable = len(self.state)

    def crash(self) -> None:
        """What is not durable may be gone; what is prepared is finished, marker by marker."""
        kept = self.dice.randint(self.durable, len(self.state))
        del self.state[kept:]
        self.durable = kept
        self.state = [records.read_value("t", records.value(each)) for each in self.state]
        for place, rows in self.data.items():
            for _, producer_id, epoch, _ in self.open_in(rows):
                known = self.known
                if known is None or place not in known.partitions:
                    move = transitions.add(
                        known, Producer(producer_id, epoch), [place], 2, self.now
                    )
                    assert move.value is not None, "a batch that nobody can end"
                    self.write(move.value)
        self.finish(crashes=self.dice.random() < 0.5)

    @staticmethod
    def open_in(rows: list[tuple[str, int, int, int]]) -> list[tuple[str, int, int, int]]:
        last = max((n for n, row in enumerate(rows) if row[0] != "data"), default=-1)
        return rows[last + 1 :]

    def finish(self, *, crashes: bool = False) -> None:
        known = self.known
        if known is None or not known.is_prepared:
            return
        places = self.dice.sample(sorted(known.partitions), len(known.partitions))
        for number, place in enumerate(places):
            if crashes and number == len(places) - 1:
                self.crash()
                return
            rows = self.data.setdefault(place, [])
            newest = max((row[2] for row in rows if row[1] == known.producer_id), default=-1)
            assert known.epoch >= newest, "a marker that the partition would refuse"
            what = "commit" if known.commits else "abort"
            rows.append((what, known.producer_id, known.epoch, -1))
        self.write(transitions.complete(known, self.now), durable=self.dice.random() < 0.8)


class Client:
    def __init__(self, world: World) -> None:
        self.world = world
        self.me = Producer(NO_ID, -1)
        self.number = -1

    def init(self) -> None:
        world = self.world
        for _ in range(2):
            world.ids += 1
            move = transitions.init(world.known, "t", 1000, None, world.ids, world.now)
            world.write(move.value)
            world.finish(crashes=world.dice.random() < 0.2)
            world.write(None)
            if move.error is ErrorCode.none:
                break
        assert move.value is not None
        self.me = Producer(move.value.producer_id, move.value.epoch)

    def step(self) -> None:
        """Write to some partitions and end; whoever is fenced gives up."""
        world = self.world
        number = max(world.outcomes, default=0) + 1
        world.outcomes[number] = False
        places = world.dice.sample(PLACES, world.dice.randint(1, 3))
        for place in places:
            move = transitions.add(world.known, self.me, [place], 2, world.now)
            if move.error is not ErrorCode.none:
                assert move.error in (
                    ErrorCode.producer_fenced,
                    ErrorCode.invalid_producer_id_mapping,
                )
                self.me = Producer(NO_ID, -1)
                return
            world.write(move.value, durable=world.dice.random() < 0.7)
            world.data.setdefault(place, []).append(("data", *self.me, number))
            if world.dice.random() < 0.1:
                world.crash()
        world.write(None)  # all of it was acknowledged
        self.end(number)

    def end(self, number: int) -> None:
        world, commit = self.world, self.world.dice.random() < 0.7
        world.ids += 1
        next_id = world.ids if transitions.needs_next_id(world.known, 2) else NO_ID
        move = transitions.end(world.known, self.me, commit, 2, next_id, world.now)
        assert move.error is ErrorCode.none, move
        world.write(move.value)
        world.finish(crashes=world.dice.random() < 0.3)
        if world.dice.random() < 0.2:
            world.crash()
        world.write(None)  # the answer waits for that
        again = transitions.end(world.known, self.me, commit, 2, NO_ID, world.now)
        assert again == Transition(), "the answer was lost, and the client asks again"
        world.outcomes[number] = commit
        assert world.known is not None
        self.me = Producer(world.known.producer_id, world.known.epoch)
        if world.dice.random() < 0.2:
            world.crash()


def check(world: World) -> None:
    """Every transaction is in all its partitions, with one and the same end."""
    for rows in world.data.values():
        ended: list[int] = []
        for what, _, _, number in rows:
            if what == "data":
                ended.append(number)
            else:
                assert {world.outcomes[each] for each in ended} <= {what == "commit"}
                ended = []
        assert not any(world.outcomes[each] for each in ended), "committed, and without a marker"


@pytest.mark.parametrize("seed", range(300))
def test_whatever_crashes_every_transaction_ends_as_its_producer_was_told(seed: int) -> None:
    world = World(Random(seed))
    clients = [Client(world), Client(world)]
    for _ in range(25):
        world.now += 1
        client = world.dice.choice(clients)
        if client.me.id == NO_ID or world.dice.random() < 0.15:
            client.init()
            if world.dice.random() < 0.1 and world.known is not None:
                worn = replace(world.known, epoch=EPOCH_MAX - 1)
                if worn.state is not State.ONGOING and not worn.is_prepared:
                    world.write(worn)
                    client.me = Producer(worn.producer_id, worn.epoch)
        else:
            client.step()
        check(world)


# ---- the last epoch is nobody's --------------------------------------------------------------------


def timed_out_at_the_last_epoch_but_one() -> Transaction:
    ongoing = Transaction(
        "x",
        5,
        EPOCH_MAX - 1,
        timeout_ms=1000,
        state=State.ONGOING,
        partitions=frozenset({("t", 0)}),
        start_ms=0,
        version=2,
    )
    return transitions.complete(transitions.fence(ongoing, 5000), 5001)


def test_a_producer_that_would_get_the_last_epoch_gets_a_new_id() -> None:
    known, expected = timed_out_at_the_last_epoch_but_one(), Producer(5, EPOCH_MAX - 1)
    assert known.epoch == EPOCH_MAX
    assert transitions.needs_new_id(known, expected)
    move = transitions.init(known, "x", 1000, expected, 99, 5002)
    assert move.error is ErrorCode.none and move.value is not None
    assert (move.value.producer_id, move.value.epoch) == (99, 0)


def test_whoever_holds_the_last_epoch_is_fenced_and_can_still_end() -> None:
    """Values of before may have it."""
    known = replace(timed_out_at_the_last_epoch_but_one(), state=State.EMPTY)
    zombie = Producer(5, EPOCH_MAX)
    assert transitions.add(known, zombie, [("t", 0)], 2, 1).error is ErrorCode.producer_fenced
    ongoing = replace(known, state=State.ONGOING, partitions=frozenset({("t", 0)}), start_ms=0)
    assert transitions.needs_next_id(ongoing, 2)
    ended = transitions.end(ongoing, zombie, True, 2, 99, 2).value
    assert ended is not None
    assert ended.epoch == EPOCH_MAX
    assert transitions.complete(ended, 3).producer_id == 99
    assert transitions.complete(transitions.fence(ongoing, 4), 5).epoch == EPOCH_MAX


@pytest.mark.parametrize("state", [State.COMPLETE_COMMIT, State.PREPARE_COMMIT])
def test_a_value_that_caught_up_says_of_no_transaction_that_it_has_committed(state: State) -> None:
    """Values were lost behind one that says "commit": how the transactions after it ended nobody knows."""
    at = frozenset({("t", 0)}) if state is State.PREPARE_COMMIT else frozenset[tuple[str, int]]()
    known = replace(begun(epoch=1), state=state, version=2, partitions=at)
    value = transitions.catch_up(known, 2, frozenset(), 5)
    value = transitions.complete(value, 6) if value.is_prepared else value
    assert not hanging_transactions._has_committed(value, 1)
    decisions = Decisions()
    decisions.note(value)
    assert not decisions.committed(value.producer_id, 1, ("t", 0))
    retried = transitions.end(value, Producer(value.producer_id, 1), True, 2, -1, 7)
    assert retried.error is not ErrorCode.none
