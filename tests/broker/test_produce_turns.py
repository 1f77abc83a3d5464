"""A Produce of very many batches is stored in many turns of the event loop, as if it were in one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.api import k00_produce
from headwater.broker.validation import THREADS
from headwater.record.records import Record, build
from headwater.testing.clock import ManualClock
from tests.broker.serving import Serving, serving
from tests.broker.turns import most_in_a_turn
from tests.compat.asking import end_offset, produce, read_all
from tests.compat.batches import TRANSACTIONAL, batch
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import ConnectionClosed, ErrorCode, Wire

MANY, AT_ONCE = 60, 5
DAY_MS = 86_400_000
BAD = batch([(b"k", b"v")])[:-1] + b"x"


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(k00_produce, "AT_ONCE_BATCHES_MAX", AT_ONCE)
    monkeypatch.setattr(k00_produce, "PARTS_AT_ONCE", AT_ONCE)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def broker(data: Path, clock: ManualClock) -> Iterator[Serving]:
    with serving(data, clock=clock) as running:
        running.create("t", 3, message_timestamp_type="LogAppendTime")
        yield running


def asked(parts: Sequence[tuple[int, bytes]], acks: int = -1, topic: str = "t") -> dict[str, Any]:
    data = [{"index": number, "records": records} for number, records in parts]
    return {
        "acks": acks,
        "timeout": 9000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }


def numbered(number: int) -> bytes:
    """The batch of an idempotent producer with this sequence."""
    value = b"%d" % number
    return build([Record(0, 0, None, value)], producer_id=7, producer_epoch=0, base_sequence=number)


def rows(wire: Wire) -> list[Any]:
    (topic,) = wire.receive()[1].responses
    return list(topic.partition_responses)


def between_turns(
    monkeypatch: pytest.MonkeyPatch, after: int, happens: Callable[[], object]
) -> None:
    """Let something happen in the turn after so many batches were stored."""
    stage, count = k00_produce._stage, [0]

    def staged(*arguments: Any) -> None:
        stage(*arguments)
        count[0] += len(arguments[2])
        if count[0] == after:
            happens()

    monkeypatch.setattr(k00_produce, "_stage", staged)


def test_no_turn_stores_many_and_all_is_answered_in_order(broker: Serving) -> None:
    partition = broker.broker.topics.partitions["t", 0]
    with broker.wire() as wire:
        most = most_in_a_turn(
            broker,
            lambda: partition.log.next_offset,
            lambda: wire.send("produce", 9, **asked([(0, numbered(n)) for n in range(MANY)])),
            MANY,
        )
        assert most <= AT_ONCE
        assert [row.base_offset for row in rows(wire)] == list(range(MANY))
        values = [each.pairs[0][1] for each in read_all(wire, "t")]
        assert values == [b"%d" % number for number in range(MANY)]


def test_topics_named_again_and_errors_in_between_are_answered_one_by_one(broker: Serving) -> None:
    kinds = [("t", 0, numbered(0)), ("t", 9, numbered(0)), ("no", 0, BAD), ("t", 1, BAD)]
    topics = [
        {"name": name, "partition_data": [{"index": number, "records": records}]}
        for name, number, records in kinds * 5
    ]
    with broker.wire() as wire:
        answer = wire.ask("produce", 9, acks=-1, timeout=9000, topic_data=topics)
    assert [each.name for each in answer.responses] == [name for name, _, _ in kinds * 5]
    unknown = ErrorCode.unknown_topic_or_partition
    codes = [row.error_code for each in answer.responses for row in each.partition_responses]
    assert codes == [ErrorCode.none, unknown, unknown, ErrorCode.corrupt_message] * 5
    offsets = [row.base_offset for each in answer.responses for row in each.partition_responses]
    assert offsets == [0, -1, -1, -1] * 5, "the same batch again has the offset that it had"


def test_a_request_behind_it_is_stored_behind_it(broker: Serving) -> None:
    with broker.wire() as wire:
        wire.send("produce", 9, **asked([(0, numbered(n)) for n in range(MANY)]))
        wire.send("produce", 9, **asked([(0, numbered(MANY))]))
        assert [row.error_code for row in rows(wire)] == [ErrorCode.none] * MANY
        assert [row.base_offset for row in rows(wire)] == [MANY]


def test_sent_again_in_other_portions_it_is_stored_once(broker: Serving) -> None:
    with broker.wire() as wire:
        wire.send("produce", 9, **asked([(0, numbered(n)) for n in range(MANY)]))
        rows(wire)
        wire.send("produce", 9, **asked([(0, numbered(n)) for n in range(MANY - 5, MANY + 6)]))
        assert [row.base_offset for row in rows(wire)] == list(range(MANY - 5, MANY + 6))
        assert end_offset(wire, "t") == MANY + 6


def test_a_client_that_leaves_in_the_middle_leaves_a_sound_log(
    broker: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = broker.broker

    def leave() -> None:
        for connection in tuple(inside.connections):
            connection.outbound.transport.abort()  # type: ignore[union-attr]

    between_turns(monkeypatch, 4 * AT_ONCE, leave)
    with broker.wire() as wire:
        wire.send("produce", 9, **asked([(0, numbered(n)) for n in range(MANY)]))
        with pytest.raises(ConnectionClosed):
            wire.receive()
    with broker.wire() as wire:
        until(lambda: end_offset(wire, "t") == MANY, "what it had sent to be stored")
        assert produce(wire, "t", numbered(MANY)).base_offset == MANY
    until(lambda: not broker.call(lambda: inside.memory.held), "nothing to be held")


def test_a_broker_that_stops_in_the_middle_keeps_what_it_has_said(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(data) as running:
        running.create("t")
        stop = running.broker.stop
        ends: list[Any] = []
        between_turns(monkeypatch, 2 * AT_ONCE, lambda: ends.append(running.begin(stop())))
        with running.wire() as wire:
            wire.send("produce", 9, **asked([(0, numbered(n)) for n in range(MANY)]))
            codes = [row.error_code for row in rows(wire)]
        ends[0].result(60)
        monkeypatch.setattr(running.broker, "stop", _nothing)
    with serving(data) as running, running.wire() as wire:
        stored = codes.count(ErrorCode.none)
        assert codes == [ErrorCode.none] * stored + codes[stored:]
        assert end_offset(wire, "t") >= stored >= 2 * AT_ONCE
        assert len(read_all(wire, "t")) == end_offset(wire, "t")


async def _nothing() -> None:
    """It has stopped."""


def test_configs_changed_in_the_middle_hold_for_the_rest(
    broker: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compact() -> None:
        topic = broker.broker.catalogue.topics["t"]
        configs = {**topic.configs, "cleanup.policy": "compact"}
        broker.broker.reconfigure(replace(topic, configs=configs))

    between_turns(monkeypatch, 4 * AT_ONCE, compact)
    with broker.wire() as wire:
        wire.send("produce", 9, **asked([(0, numbered(n)) for n in range(MANY)]))
        codes = [row.error_code for row in rows(wire)]
    assert codes[: 4 * AT_ONCE] == [ErrorCode.none] * 4 * AT_ONCE
    assert set(codes[4 * AT_ONCE :]) == {ErrorCode.invalid_record}


def test_without_acknowledgement_many_errors_are_told_once(
    broker: Serving, caplog: pytest.LogCaptureFixture
) -> None:
    with broker.wire() as wire:
        wire.send("produce", 9, answer=False, **asked([(0, BAD)] * MANY, acks=0))
        with pytest.raises(ConnectionClosed):
            wire.receive_bytes()
    assert len([each for each in caplog.records if "acks=0" in each.getMessage()]) == 1


# ---- transactions ----------------------------------------------------------------------------------


def transactional(producer: Transactor, places: Sequence[int]) -> list[tuple[int, bytes]]:
    next_one = dict.fromkeys(places, 0)
    found = []
    for number in places:
        who = (producer.id, producer.epoch, next_one[number])
        found.append((number, batch([(b"k", b"v")], producer=who, attributes=TRANSACTIONAL)))
        next_one[number] += 1
    return found


@pytest.mark.parametrize("version", [1, 2])
def test_a_transaction_that_times_out_in_the_middle_has_nothing_behind_its_end(
    broker: Serving, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    def time_out() -> None:
        clock.advance(DAY_MS)
        broker.broker.transactions.abort_overdue()

    with broker.wire() as wire:
        producer = Transactor(wire, "id", version).init()
        if version == 1:
            Transactor.retried(lambda: producer.add("t", 0, 1))
        between_turns(monkeypatch, 4 * AT_ONCE, time_out)
        parts = transactional(producer, [0, 1] * (MANY // 2))
        wire.send("produce", 10 + version, transactional_id="id", **asked(parts))
        codes = [row.error_code for row in rows(wire)]
        producer.settle()
    assert codes[: 4 * AT_ONCE] == [ErrorCode.none] * 4 * AT_ONCE
    assert not codes[4 * AT_ONCE :].count(ErrorCode.none)
    for number in (0, 1):
        log = broker.log("t", number)
        assert log.next_offset == 2 * AT_ONCE + 1, "its batches and its end"
        assert not log.producers.open_transactions
        assert log.last_stable_offset() == log.next_offset


def test_a_partition_made_in_the_middle_is_in_the_transaction_before_it_has_a_batch(
    broker: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request names it, its topic comes while earlier batches of it are stored."""

    def make() -> None:
        configs = {"message.timestamp.type": "LogAppendTime"}
        made = broker.begin(broker.broker.topics.create("late", 1, configs))
        for _ in range(THREADS):  # nothing more is checked before it is there
            broker.broker.validation.run(lambda: made.result(60))

    between_turns(monkeypatch, AT_ONCE, make)
    with broker.wire() as wire:
        producer = Transactor(wire, "id").init()
        first = asked(transactional(producer, [0] * MANY))["topic_data"]
        last = asked(transactional(producer, [0]), topic="late")["topic_data"]
        answer = wire.ask(
            "produce", 12, transactional_id="id", acks=-1, timeout=9000, topic_data=first + last
        )
        late = answer.responses[1].partition_responses[0]
        assert late.error_code is ErrorCode.none
        assert ("late", 0) in producer.described().partitions
        producer.end()
    assert not broker.log("late").producers.open_transactions


def test_each_batch_of_a_transaction_is_admitted_without_looking_at_all_the_others(
    broker: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks: list[object] = []
    add_now = broker.broker.transactions.add_now
    monkeypatch.setattr(
        broker.broker.transactions, "add_now", lambda *a: (asks.append(a), add_now(*a))[1]
    )
    with broker.wire() as wire:
        producer = Transactor(wire, "id").init()
        parts = transactional(producer, [0, 1, 2] * (MANY // 3))
        wire.send("produce", 12, transactional_id="id", **asked(parts))
        assert [row.error_code for row in rows(wire)] == [ErrorCode.none] * MANY
        assert len(asks) == 1
        producer.end()
