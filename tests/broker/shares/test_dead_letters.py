"""Dead letters of a running broker: what was rejected or given up lies in a topic, once."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.broker.broker import Broker
from headwater.broker.shares.records import Key
from headwater.broker.shares.state import Ack
from headwater.record.batch import BROKER_PRODUCER_ID
from headwater.record.records import Record, build
from headwater.testing import ManualClock, broker
from tests.broker.shares.test_coordinator import owner, settle, take
from tests.compat.asking import produce
from tests.compat.batches import NOW_MS
from tests.compat.wire import ErrorCode, connected

from .queue import ACCEPT, QUICK, REJECT, RELEASE, Queue, headers

HOUR_MS = 3_600_000


@pytest.fixture
def node() -> Iterator[Broker]:
    with broker(settings=dict(QUICK)) as running:
        yield running


@pytest.fixture
def queue(node: Broker) -> Queue:
    return Queue(node.bootstrap).create()


def test_a_rejected_record_is_kept_with_its_story(queue: Queue) -> None:
    queue.put("good", "bad", key="k", headers={"trace": "7"})
    queue.work(2, lambda message: REJECT if message.value() == b"bad" else ACCEPT)
    (letter,) = queue.read("dlq.workers", 1)
    assert (letter.key(), letter.value()) == (b"k", b"bad")
    story = headers(letter)
    assert story.pop("__dlq.errors.state")
    assert story == {
        "trace": "7",
        "__dlq.errors.topic": "work",
        "__dlq.errors.partition": "0",
        "__dlq.errors.offset": "1",
        "__dlq.errors.group": "workers",
        "__dlq.errors.delivery.count": "1",
        "__dlq.errors.message": "Offset rejected by client.",
    }


def test_a_record_that_is_delivered_too_often_is_kept(queue: Queue) -> None:
    queue.configure(share_delivery_count_limit="2")
    queue.put("poison")
    queue.work(2, lambda message: RELEASE)
    (letter,) = queue.read("dlq.workers", 1)
    assert headers(letter)["__dlq.errors.delivery.count"] == "2"
    assert headers(letter)["__dlq.errors.message"] == "Delivery count limit reached."


def test_a_record_whose_last_lock_ends_is_kept(queue: Queue) -> None:
    queue.configure(share_delivery_count_limit="2", share_record_lock_duration_ms="1000")
    queue.put("slow")
    with queue.worker() as consumer:
        seen = 0
        while seen < 2:
            for message in consumer.poll(0.2):
                seen += 1
                consumer.acknowledge(message, RELEASE if seen == 1 else ACCEPT)
            if seen == 1:
                consumer.commit_sync(10)
        # The second time it holds the record and says nothing.
        (letter,) = queue.read("dlq.workers", 1)
    assert letter.value() == b"slow"


def test_a_group_may_name_its_topic_or_want_none(queue: Queue) -> None:
    queue.configure(errors_deadletterqueue_topic_name="dlq.elsewhere")
    queue.put("one")
    queue.work(1, lambda message: REJECT)
    assert [letter.value() for letter in queue.read("dlq.elsewhere", 1)] == [b"one"]
    queue.configure(errors_deadletterqueue_topic_name="")
    queue.put("two", "three")
    queue.work(2, lambda message: REJECT)
    assert len(queue.everything("dlq.elsewhere")) == 1


def test_a_topic_without_the_prefix_is_never_written_to(queue: Queue) -> None:
    queue.configure(errors_deadletterqueue_topic_name="work")
    queue.put("one")
    queue.work(1, lambda message: REJECT)
    assert len(queue.everything("work")) == 1


def test_dead_letters_can_be_switched_off_for_all() -> None:
    with broker(settings={**QUICK, "share.dead.letters.enable": False}) as node:
        queue = Queue(node.bootstrap).create()
        queue.put("one")
        queue.work(1, lambda message: REJECT)
        assert "dlq.workers" not in queue.admin.list_topics(timeout=60).topics


def test_a_dead_letter_of_a_dead_letter_tells_its_own_story(queue: Queue) -> None:
    queue.put("bad")
    queue.work(1, lambda message: REJECT)
    queue.read("dlq.workers", 1)
    second = Queue(queue.bootstrap, "dlq.workers", "undertakers")
    second.configure(share_auto_offset_reset="earliest")
    second.work(1, lambda message: REJECT)
    (letter,) = queue.read("dlq.undertakers", 1)
    assert headers(letter)["__dlq.errors.topic"] == "dlq.workers"
    assert headers(letter)["__dlq.errors.group"] == "undertakers"
    assert len(letter.headers()) == 7


def test_a_crash_between_letter_and_state_leaves_one_letter(tmp_path: Path) -> None:
    """The state topic as it was before: what a crash leaves that comes between the two writes."""
    data = tmp_path / "data"
    with broker(data=data, settings=dict(QUICK)) as node:
        queue = Queue(node.bootstrap).create()
        queue.put("bad", "good")
        with queue.worker() as consumer:
            while not list(consumer.poll(0.2)):
                pass
    before = tmp_path / "before"
    shutil.copytree(data / "__share_group_state-0", before)
    with broker(data=data, settings=dict(QUICK)) as node:
        queue = Queue(node.bootstrap)
        queue.work(2, lambda message: REJECT if message.value() == b"bad" else ACCEPT)
        queue.read("dlq.workers", 1)
    shutil.rmtree(data / "__share_group_state-0")
    shutil.copytree(before, data / "__share_group_state-0")
    with broker(data=data, settings=dict(QUICK)) as node:
        topic = node.catalogue.topics["work"]
        state = node.shares.owners[Key("workers", topic.id, 0)].state
        assert state is not None
        assert state.start == 1, "the record that has its dead letter is done with"
        queue = Queue(node.bootstrap)
        assert [message.value() for message in queue.work(1)] == [b"good"]
        assert len(queue.everything("dlq.workers")) == 1


def test_a_group_that_is_sent_back_gets_its_dead_letters_records_again(tmp_path: Path) -> None:
    with broker(data=tmp_path, settings=dict(QUICK)) as node:
        queue = Queue(node.bootstrap).create()
        queue.put("bad", "good")
        queue.work(2, lambda message: REJECT if message.value() == b"bad" else ACCEPT)
        queue.read("dlq.workers", 1)
        key = Key("workers", node.catalogue.topics["work"].id, 0)
        owner = node.shares.owners[key]
        loop = node.disk._loop
        asyncio.run_coroutine_threadsafe(owner.reset(0), loop).result(60)
    with broker(data=tmp_path, settings=dict(QUICK)) as node:
        again = Queue(node.bootstrap).work(2)
        assert [message.value() for message in again] == [b"bad", b"good"]


def at(data: Path, now_ms: int) -> Broker:
    return Broker(data, "127.0.0.1:0", {}, clock=ManualClock(now_ms))


async def start_after_restart(data: Path) -> int:
    async with at(data, NOW_MS) as node:
        state = (await owner(node)).state
        assert state is not None
        return state.start


async def test_after_a_crash_a_letter_counts_though_the_clock_was_set_back(tmp_path: Path) -> None:
    data, before = tmp_path / "data", tmp_path / "before"
    async with at(data, NOW_MS) as node:
        await owner(node)
    shutil.copytree(data / "__share_group_state-0", before)
    async with at(data, NOW_MS - HOUR_MS) as node:
        found = await owner(node)
        take(found, "a", 1)
        assert await settle(found, "a", 0, 0, Ack.REJECT) == (ErrorCode.none, None)
    shutil.rmtree(data / "__share_group_state-0")
    shutil.copytree(before, data / "__share_group_state-0")
    assert await start_after_restart(data) == 1


async def test_a_letter_is_not_of_a_group_that_was_made_again_after_the_clock_was_set_back(
    tmp_path: Path,
) -> None:
    async with at(tmp_path, NOW_MS) as node:
        found = await owner(node)
        take(found, "a", 1)
        assert await settle(found, "a", 0, 0, Ack.REJECT) == (ErrorCode.none, None)
        assert await node.shares.delete("g") is ErrorCode.none
    async with at(tmp_path, NOW_MS - HOUR_MS) as node:
        await owner(node)
    assert await start_after_restart(tmp_path) == 0


def test_a_group_that_reads_its_own_dead_letters_comes_to_an_end(queue: Queue) -> None:
    queue.put("bad")
    queue.work(1, lambda message: REJECT)
    queue.read("dlq.workers", 1)
    own = Queue(queue.bootstrap, "dlq.workers", "workers")
    own.work(1, lambda message: REJECT)
    assert len(queue.everything("dlq.workers")) == 1


# ---- letters that are not ours --------------------------------------------------------------------------


def forged(offset: int | str, state: str) -> dict[str, str]:
    said = {"topic": "work", "partition": "0", "offset": str(offset), "group": "workers"}
    said["state"] = state
    return {f"__dlq.errors.{name}": value for name, value in said.items()}


@pytest.mark.parametrize("topic", ["dlq.workers", "dlq.evil"])
@pytest.mark.parametrize("offset", [1, 2**62, "9" * 30])
def test_what_a_client_writes_among_dead_letters_settles_nothing(
    tmp_path: Path, topic: str, offset: int | str
) -> None:
    with broker(data=tmp_path, settings=dict(QUICK)) as node:
        queue = Queue(node.bootstrap).create()
        queue.put("first", "second")
        queue.work(1, lambda message: REJECT if message.offset() == 0 else RELEASE)
        (letter,) = queue.read("dlq.workers", 1)
        state = headers(letter)["__dlq.errors.state"]
        other = Queue(node.bootstrap, topic)
        if topic != "dlq.workers":
            other.create()
        other.put("x", headers=forged(offset, state))
    with broker(data=tmp_path, settings=dict(QUICK)) as node:
        again = Queue(node.bootstrap).work(1)
        assert [message.value() for message in again] == [b"second"]


def test_no_client_can_write_as_the_broker(queue: Queue, node: Broker) -> None:
    data = build([Record(0, 1, b"k", b"v")], producer_id=BROKER_PRODUCER_ID)
    with connected(node.bootstrap) as wire:
        refused = produce(wire, "work", data)
    assert refused.error_code is ErrorCode.invalid_record
