"""InitProducerId in every state: what Apache Kafka 4.3.1 answered when it was asked the same.

Epochs are told relative to the one that the producer had when it wrote; `busy` means
CONCURRENT_TRANSACTIONS, after which the client asks again.
"""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from headwater.broker.transactions import transitions
from headwater.broker.transactions.transaction import NO_ID, State, Transaction
from headwater.broker.transactions.transitions import Producer

ID, EPOCH = 7, 5
NEW, OWN, NEXT, STALE, FUTURE = None, 0, 1, -1, 5
"""Who asks: nobody in particular (a new producer), or one that says it has this epoch."""
BUSY, FENCED = "busy", "fenced"


class Life:
    """One transactional id; a question is answered, and what was decided is carried out."""

    def __init__(self, known: Transaction) -> None:
        self.known = known

    def ask(self, epoch: int | None, producer_id: int = ID) -> int | str:
        expected = None if epoch is None else Producer(producer_id, EPOCH + epoch)
        move = transitions.init(self.known, "t", 1000, expected, NO_ID, 1)
        if move.value is not None:
            self.known = move.value
        self.finish()
        if move.error is ErrorCode.concurrent_transactions:
            return BUSY
        if move.error is ErrorCode.producer_fenced:
            return FENCED
        assert move.error is ErrorCode.none
        return self.known.epoch - EPOCH

    def finish(self) -> None:
        if self.known.is_prepared:
            self.known = transitions.complete(self.known, 2)


def opened(version: int) -> Transaction:
    places = frozenset([("a", 0)])
    return Transaction("t", ID, EPOCH, state=State.ONGOING, partitions=places, version=version)


@pytest.fixture(params=[0, 2], ids=["tv1", "tv2"])
def version(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        pytest.param([NEW, NEW], [BUSY, 2], id="a new producer aborts it, and fences the old one"),
        pytest.param([OWN, OWN, OWN], [BUSY, 1, 1], id="its own aborts it, and may ask twice"),
        pytest.param([OWN, OWN, NEXT], [BUSY, 1, 2], id="and goes on from there"),
        pytest.param([STALE, STALE, OWN], [BUSY, FENCED, 1], id="an older one aborts, no more"),
        pytest.param([FUTURE, FUTURE], [BUSY, FENCED], id="so does one that nobody knows"),
        pytest.param([NEW, OWN, NEW, OWN], [BUSY, 1, 2, FENCED], id="the last new one wins"),
        pytest.param([NEW, NEW, OWN], [BUSY, 2, FENCED], id="fenced once and for all"),
    ],
)
def test_an_open_transaction_is_aborted_before_anybody_gets_an_epoch(
    version: int, asked: list[int | None], answers: list[int | str]
) -> None:
    life = Life(opened(version))
    assert [life.ask(each) for each in asked] == answers


def test_another_id_leaves_an_open_transaction_alone(version: int) -> None:
    life = Life(opened(version))
    assert life.ask(OWN, producer_id=ID + 1) == FENCED
    assert life.known == opened(version)


@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        pytest.param([OWN, OWN, NEXT], [1, 1, 2], id="its producer goes on"),
        pytest.param([NEW, OWN], [2, FENCED], id="unless there is a new one"),
    ],
)
def test_after_its_transaction_took_too_long_a_producer_may_go_on(
    version: int, asked: list[int | None], answers: list[int | str]
) -> None:
    life = Life(transitions.fence(opened(version), 1))
    life.finish()
    assert life.known.state is State.COMPLETE_ABORT
    assert [life.ask(each) for each in asked] == answers


def test_after_a_commit_an_epoch_is_raised_once(version: int) -> None:
    committed = transitions.end(opened(version), Producer(ID, EPOCH), True, version, NO_ID, 1).value
    assert committed is not None
    life = Life(committed)
    life.finish()
    now = life.known.epoch - EPOCH
    assert now == (1 if version == 2 else 0)
    asked = [now, now, now + 1, now]
    assert [life.ask(each) for each in asked] == [now + 1, now + 1, now + 2, FENCED]


def test_the_epoch_before_a_commit_raised_it_is_told_the_raised_one() -> None:
    committed = transitions.end(opened(2), Producer(ID, EPOCH), True, 2, NO_ID, 1).value
    assert committed is not None
    life = Life(committed)
    life.finish()
    assert life.ask(OWN) == 1
