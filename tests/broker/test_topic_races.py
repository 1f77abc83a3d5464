"""Changes of topics that meet: each is judged by the topic as the one before it has left it."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.broker.serving import Serving, serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire


@pytest.fixture
def broker(data: Path) -> Iterator[Serving]:
    with serving(data) as running:
        running.create("t")
        yield running


@contextmanager
def queued(broker: Serving) -> Iterator[None]:
    """Whoever wants to change a topic meanwhile waits, first come, first served."""
    lock = broker.broker.catalogue.changing
    broker.run(lock.acquire())
    try:
        yield
    finally:
        broker.call(lock.release)


def waits(broker: Serving, count: int) -> None:
    lock = broker.broker.catalogue.changing
    until(lambda: len(getattr(lock, "_waiters", None) or ()) == count, f"{count} in the queue")


def growth(count: int, name: str = "t") -> dict[str, Any]:
    return {"topics": [{"name": name, "count": count, "assignments": None}], "timeout": 9000}


def test_a_topic_that_grows_twice_at_once_never_shrinks(data: Path) -> None:
    with serving(data) as broker, broker.wire() as one, broker.wire() as two:
        broker.create("t")
        with queued(broker):
            one.send("create_partitions", 3, **growth(20))
            waits(broker, 1)
            two.send("create_partitions", 3, **growth(3))
            waits(broker, 2)
        assert one.receive()[1].results[0].error_code is ErrorCode.none
        row = two.receive()[1].results[0]
        assert row.error_code is ErrorCode.invalid_partitions
        assert "currently has 20 partition(s)" in row.error_message
        assert produce(one, "t", batch(), partition=15).error_code is ErrorCode.none
    with serving(data) as again:
        assert again.broker.catalogue.topics["t"].partitions == 20
        assert not again.broker.store.set_aside


def test_a_topic_that_nobody_waits_for_any_more_is_made_all_the_same(data: Path) -> None:
    """As at a stop, or where a request is given up: its folders are there, its record is not."""
    with serving(data) as broker:
        topics, lock = broker.broker.topics, broker.broker.catalogue.changing

        async def give_up() -> None:
            making = asyncio.create_task(topics.create("t", 1, {}))
            while "t" not in topics.reserved:
                await asyncio.sleep(0)
            async with asyncio.timeout(60), lock:
                while not (data / "t-0").exists() or not getattr(lock, "_waiters", None):
                    await asyncio.sleep(0.001)
                making.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await making

        broker.run(give_up())
        with broker.wire() as wire:
            assert produce(wire, "t", batch()).error_code is ErrorCode.none
    with serving(data) as again:
        assert not again.broker.store.set_aside and "t" in again.broker.catalogue.topics


@pytest.mark.parametrize("change", ["grow", "delete"])
def test_a_change_that_nobody_waits_for_any_more_is_done_all_the_same(
    data: Path, change: str
) -> None:
    """Else the open folders of a partition that the catalogue does not know would keep its name."""
    with serving(data) as broker:
        broker.create("t")
        topics = broker.broker.topics
        arguments = (3,) if change == "grow" else ()

        async def give_up() -> None:
            changing = asyncio.create_task(getattr(topics, change)("t", *arguments))
            held = topics._run

            async def slow(*work: Any) -> None:
                changing.cancel()
                await asyncio.sleep(0)
                await held(*work)

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(topics, "_run", slow)
                with pytest.raises(asyncio.CancelledError):
                    await changing

        broker.run(give_up())
        if change == "delete":
            broker.create("t")
        with broker.wire() as wire:
            last = broker.broker.catalogue.topics["t"].partitions - 1
            assert last == (2 if change == "grow" else 0)
            assert produce(wire, "t", batch(), partition=last).error_code is ErrorCode.none
    with serving(data) as again:
        assert not again.broker.store.set_aside and "t" in again.broker.catalogue.topics


def _deleted(wire: Wire) -> None:
    wire.send("delete_topics", 6, topics=[{"name": "t"}], timeout=9000)


def test_a_topic_that_is_deleted_before_it_grows_is_unknown(broker: Serving) -> None:
    with broker.wire() as one, broker.wire() as two:
        with queued(broker):
            _deleted(one)
            waits(broker, 1)
            two.send("create_partitions", 3, **growth(3))
            waits(broker, 2)
        assert one.receive()[1].responses[0].error_code is ErrorCode.none
        row = two.receive()[1].results[0]
        assert row.error_code is ErrorCode.unknown_topic_or_partition


def test_a_deletion_by_id_never_takes_another_topic_of_that_name(broker: Serving) -> None:
    old = broker.broker.catalogue.topics["t"].id
    with broker.wire() as wire:
        with queued(broker):
            wire.send("delete_topics", 6, topics=[{"name": None, "topic_id": old}], timeout=9000)
            waits(broker, 1)
            another = _made_again(broker)
        assert wire.receive()[1].responses[0].error_code is ErrorCode.unknown_topic_id
        assert broker.broker.catalogue.topics["t"].id == another


def _made_again(broker: Serving) -> uuid.UUID:
    """As if somebody before it in the queue had deleted the topic and made it again; its id."""
    topic = broker.broker.catalogue.topics["t"]
    made = replace(topic, id=uuid.uuid4())

    async def put() -> None:
        await broker.broker.catalogue.remove_topic("t")
        await broker.broker.catalogue.put_topic(made)

    broker.run(put())
    return made.id


def test_the_catalogue_takes_no_topic_with_fewer_partitions(broker: Serving) -> None:
    catalogue = broker.broker.catalogue

    async def shrink() -> None:
        grown = replace(catalogue.topics["t"], partitions=3)
        await catalogue.put_topic(grown)
        await catalogue.put_topic(replace(grown, partitions=2))

    with pytest.raises(ValueError, match="never shrinks"):
        broker.run(shrink())
    assert catalogue.topics["t"].partitions == 3


def test_records_of_a_topic_that_is_being_deleted_are_nobodys_to_delete(data: Path) -> None:
    """The catalogue does not know it any more, and some of its partitions are still to go."""
    with serving(data) as broker, broker.wire() as one, broker.wire() as two:
        broker.create("t", 2)
        first = broker.broker.topics.partitions["t", 0]
        broker.run(first.maintenance.acquire())
        _deleted(one)
        until(lambda: "t" not in broker.broker.catalogue.topics, "the catalogue to forget it")
        assert broker.broker.partition("t", 1) is not None
        topics = [{"name": "t", "partitions": [{"partition_index": 1, "offset": 0}]}]
        row = two.ask("delete_records", 2, topics=topics, timeout=9000).topics[0].partitions[0]
        assert row.error_code is ErrorCode.unknown_topic_or_partition
        assert produce(two, "t", batch(), partition=1).error_code is (
            ErrorCode.unknown_topic_or_partition
        )
        broker.call(first.maintenance.release)
        assert one.receive()[1].responses[0].error_code is ErrorCode.none
