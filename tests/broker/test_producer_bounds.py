"""Producer ids are what clients say: made-up ones do not fill the broker, and keep nobody out for long."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.log import producers
from headwater.testing import ManualClock
from headwater.wire import messages
from tests.broker.serving import Serving, serving
from tests.compat.asking import produce
from tests.compat.batches import NOW_MS, batch
from tests.compat.wire import ErrorCode, Wire

ROOM = 50
MADE_UP = 10**12


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW_MS)


@pytest.fixture
def broker(data: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    monkeypatch.setattr(producers, "PRODUCERS_MAX", ROOM)
    with serving(data, clock=clock) as running:
        running.create("t", 1)
        yield running


@pytest.fixture
def wire(broker: Serving) -> Iterator[Wire]:
    with broker.wire() as connection:
        yield connection


def write(wire: Wire, producer_id: int, sequence: int = 0) -> Any:
    data = batch([(None, b"v")], producer=(producer_id, 0, sequence))
    return produce(wire, "t", data).error_code


def test_more_producers_than_there_is_room_for_have_to_wait(
    broker: Serving, wire: Wire, clock: ManualClock
) -> None:
    half = ROOM // 2  # the other one is for those who have asked for their id
    codes = [write(wire, MADE_UP + number) for number in range(half + 5)]
    assert codes == [ErrorCode.none] * half + [ErrorCode.throttling_quota_exceeded] * 5
    assert write(wire, MADE_UP, 1) is ErrorCode.none, "who is known goes on"
    assert produce(wire, "t", batch([(None, b"plain")])).error_code is ErrorCode.none
    clock.advance(producers.SILENT_MS + 1)
    assert write(wire, MADE_UP + ROOM + 1) is ErrorCode.none
    assert len(described(wire)) == 1


def described(wire: Wire) -> list[Any]:
    answer = wire.ask("describe_producers", 0, topics=[{"name": "t", "partition_indexes": [0]}])
    return list(answer.topics[0].partitions[0].active_producers)


def test_a_restart_remembers_as_many_as_there_is_room_for(
    data: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        broker.create("t", 1)
        for number in range(3 * ROOM):
            assert write(wire, MADE_UP + number) is ErrorCode.none
    monkeypatch.setattr(producers, "PRODUCERS_MAX", ROOM)
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        assert ROOM <= len(described(wire)) <= 2 * ROOM
        assert broker.call(lambda: broker.broker.store.census.count) == len(described(wire))


def test_those_who_have_been_silent_make_room_before_their_time_when_there_is_little(
    broker: Serving, wire: Wire, clock: ManualClock
) -> None:
    for number in range(ROOM // 2):
        assert write(wire, MADE_UP + number) is ErrorCode.none
    broker.broker.store.census.most = lambda: ROOM - 2
    clock.advance(producers.SILENT_MS + 1)
    broker.run(broker.broker.housekeeping._release())
    assert described(wire) == []
    assert broker.call(lambda: broker.broker.store.census.count) == 0


@pytest.mark.parametrize(
    ("state_bytes", "least"), [(256 * 1024**2, 5000 * 50), (0, 10_000), (-1, 10**12)]
)
def test_there_is_room_for_producers_by_the_bytes_of_all_state(
    data: Path, state_bytes: int, least: int
) -> None:
    with serving(data, {"headwater.state.max.bytes": state_bytes}) as broker:
        assert broker.broker.store.census.most() >= least


def test_producers_are_a_part_of_the_state_that_is_counted(broker: Serving, wire: Wire) -> None:
    broker.run(broker.broker.state.recount())
    before = broker.broker.state.used
    for number in range(10):
        assert write(wire, MADE_UP + number) is ErrorCode.none
    broker.run(broker.broker.state.recount())
    assert broker.broker.state.used == before + 10 * producers.PRODUCER_BYTES


def test_rows_within_rows_are_counted_before_an_answer_is_written() -> None:
    deep = {"topics": [{"partitions": [{"active_producers": [{"producer_id": 1}] * 1000}]}]}
    assert messages.is_much(deep)
    assert not messages.is_much(deep, depth=2)
    assert messages.is_much({"assignment": {"topic_partitions": [{}] * 1000}})
    assert not messages.is_much({"topics": [{"partitions": [{}] * 100}]})
