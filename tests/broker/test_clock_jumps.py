"""The machine's clock is set, forward or back: nobody waits until it is right, and nothing ends early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.broker.cleaner import RETRY_MS
from headwater.log import compaction
from headwater.log.config import DAY_MS
from headwater.testing import ManualClock
from tests.broker.serving import Serving, create, serving
from tests.compat.asking import fetch, produce
from tests.compat.batches import batch
from tests.compat.transacting import Transactor
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

YEAR_MS = 365 * DAY_MS
TIMEOUT_MS = 5000
INTERVAL_MS = 1000
"""group.consumer.assignment.interval.ms"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def begin(wire: Wire, clock: ManualClock) -> Transactor:
    producer = Transactor(wire, "teller", timeout_ms=TIMEOUT_MS).init()
    records = batch(
        timestamps=[clock.now_ms()], producer=(producer.id, producer.epoch, 0), attributes=16
    )
    part = {"index": 0, "records": records}
    answer = wire.ask(
        "produce",
        12,
        transactional_id="teller",
        acks=-1,
        timeout=5000,
        topic_data=[{"name": "t", "partition_data": [part]}],
    )
    assert answer.responses[0].partition_responses[0].error_code is ErrorCode.none
    return producer


def is_stable(wire: Wire) -> bool:
    answer = fetch(wire, "t", max_wait=0, isolation_level=1)
    return bool(answer.last_stable_offset == answer.high_watermark)


def look(broker: Serving) -> None:
    broker.call(broker.broker.transactions.abort_overdue)


def test_a_transaction_times_out_though_the_clock_was_set_back(
    data: Path, clock: ManualClock
) -> None:
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        create(wire, "t")
        right_ms = clock.now_ms()
        clock.set(right_ms + YEAR_MS)
        begin(wire, clock)
        clock.set(right_ms)
        look(broker)
        assert not is_stable(wire)
        clock.advance(TIMEOUT_MS + 1)
        look(broker)
        until(lambda: is_stable(wire), "the transaction to be aborted")


def test_a_transaction_times_out_after_a_restart_with_the_right_time(
    data: Path, clock: ManualClock
) -> None:
    right_ms = clock.now_ms()
    clock.set(right_ms + YEAR_MS)
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        create(wire, "t")
        begin(wire, clock)
    clock.set(right_ms)
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        look(broker)
        assert not is_stable(wire)
        clock.advance(TIMEOUT_MS + 1)
        look(broker)
        until(lambda: is_stable(wire), "the transaction to be aborted")


def test_a_transaction_that_is_known_to_be_open_is_not_aborted_because_the_clock_was_set_forward(
    data: Path, clock: ManualClock
) -> None:
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        create(wire, "t")
        producer = begin(wire, clock)
        look(broker)
        clock.set(clock.now_ms() + YEAR_MS)
        look(broker)
        answer = wire.ask(
            "end_txn",
            5,
            transactional_id="teller",
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=True,
        )
        assert answer.error_code is ErrorCode.none
        until(lambda: is_stable(wire), "the transaction to be committed")


def test_a_compaction_that_failed_is_tried_again_though_the_clock_was_set_back(
    data: Path, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        create(wire, "t", cleanup_policy="compact", min_cleanable_dirty_ratio=0)
        partition = broker.broker.topics.partitions["t", 0]
        for value in (b"1", b"2"):
            produce(wire, "t", batch([(b"k", value)], timestamps=[clock.now_ms()]))
        broker.call(lambda: partition.roll(clock.now_ms()))
        produce(wire, "t", batch([(b"k", b"3")], timestamps=[clock.now_ms()]))
        with monkeypatch.context() as patch:
            patch.setattr(compaction, "command", lambda _: ["false"])
            broker.run(broker.broker.cleaner.clean_dirtiest())
        clock.set(clock.now_ms() - YEAR_MS)
        broker.run(broker.broker.cleaner.clean_dirtiest())
        assert partition.log.cleaned_offset == 0, "not so soon"
        clock.advance(RETRY_MS + 1)
        broker.run(broker.broker.cleaner.clean_dirtiest())
        assert partition.log.cleaned_offset == 2


def test_a_consumer_group_assigns_anew_though_the_clock_was_set_back(
    data: Path, clock: ManualClock
) -> None:
    def beat(wire: Wire, member: str, epoch: int, **more: Any) -> Any:
        return wire.ask(
            "consumer_group_heartbeat",
            1,
            group_id="g",
            member_id=member,
            member_epoch=epoch,
            rebalance_timeout=60_000,
            **more,
        )

    joining = {"subscribed_topic_names": ["t"], "topic_partitions": []}
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        create(wire, "t", 2)
        clock.set(clock.now_ms() + YEAR_MS)
        assert beat(wire, "first", 0, **joining).error_code is ErrorCode.none
        clock.set(clock.now_ms() - YEAR_MS)
        clock.advance(INTERVAL_MS)
        answer = beat(wire, "second", 0, **joining)
        assert answer.error_code is ErrorCode.none
        (described,) = wire.ask("consumer_group_describe", 1, group_ids=["g"]).groups
        assert described.assignment_epoch == described.group_epoch
