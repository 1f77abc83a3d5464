"""The broker inside a program and inside a test: `headwater.Broker` and `headwater.testing.broker`."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

import headwater
from headwater.testing import ManualClock
from tests.broker.processes import broker_process
from tests.compat.asking import end_offset, produce
from tests.compat.batches import batch
from tests.compat.wire import Wire, connected

HERE = "127.0.0.1:0"


async def write(bootstrap: str, topic: str, *values: bytes) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            await producer.send_and_wait(topic, value)


async def read(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with consumer:
        return [(await consumer.getone()).value for _ in range(count)]


# ---- in an event loop ------------------------------------------------------------------------------------


async def test_a_broker_lives_in_the_programs_own_loop(data: Path) -> None:
    async with headwater.Broker(data=data, listen=HERE) as broker:
        await write(broker.bootstrap, "t", b"one", b"two")
        assert await read(broker.bootstrap, "t", 2) == [b"one", b"two"]
    assert (data / ".kafka_cleanshutdown").exists()


async def test_two_at_once_know_nothing_of_each_other(tmp_path: Path) -> None:
    async with (
        headwater.Broker(tmp_path / "a", HERE) as first,
        headwater.Broker(str(tmp_path / "b"), HERE, {"num.partitions": 3}) as second,
    ):
        assert first.bootstrap != second.bootstrap
        assert first.cluster_id != second.cluster_id
        await asyncio.gather(
            write(first.bootstrap, "t", b"first"), write(second.bootstrap, "t", b"second")
        )
        assert await read(first.bootstrap, "t", 1) == [b"first"]
        assert await read(second.bootstrap, "t", 1) == [b"second"]


async def test_the_next_one_on_the_same_data_goes_on(data: Path) -> None:
    for number in range(3):
        async with headwater.Broker(data, HERE) as broker:
            await write(broker.bootstrap, "t", b"%d" % number)
            expected = [b"%d" % each for each in range(number + 1)]
            assert await read(broker.bootstrap, "t", number + 1) == expected


async def test_an_exception_inside_stops_it_in_order_and_comes_out(data: Path) -> None:
    broker = headwater.Broker(data, HERE)

    async def program() -> None:
        async with broker:
            await write(broker.bootstrap, "t", b"kept")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await program()
    assert (data / ".kafka_cleanshutdown").exists()
    with pytest.raises(ConnectionRefusedError):
        Wire(broker.bootstrap)
    async with headwater.Broker(data, HERE) as broker:
        assert await read(broker.bootstrap, "t", 1) == [b"kept"]


async def test_a_cancelled_program_stops_it_in_order(data: Path) -> None:
    started = asyncio.Event()

    async def program() -> None:
        async with headwater.Broker(data, HERE) as broker:
            await write(broker.bootstrap, "t", b"kept")
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(program())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (data / ".kafka_cleanshutdown").exists()


async def test_a_second_one_on_the_same_data_is_refused_in_one_sentence(data: Path) -> None:
    async with headwater.Broker(data, HERE) as broker:
        with pytest.raises(headwater.HeadwaterError, match="in use by another broker"):
            await headwater.Broker(data, HERE).start()
        await write(broker.bootstrap, "t", b"unharmed")


async def test_it_leaves_no_task_and_no_thread_behind(data: Path) -> None:
    threads = set(threading.enumerate())
    async with headwater.Broker(data, HERE) as broker:
        await write(broker.bootstrap, "t", b"v")
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize(
    ("listen", "settings", "sentence"),
    [
        ("nonsense", {}, "is not HOST:PORT"),
        (HERE, {"num.partitons": 2}, "did you mean num.partitions"),
        (HERE, {"num.partitions": "many"}, "num.partitions"),
        (HERE, {"durability": "perhaps"}, "durability"),
    ],
)
def test_a_mistake_in_its_words_is_told_before_anything_is_done(
    data: Path, listen: str, settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(headwater.HeadwaterError, match=sentence):
        headwater.Broker(data, listen, settings)
    assert not data.exists()


async def test_the_advertised_address_is_what_clients_are_told(data: Path) -> None:
    async with headwater.Broker(data, HERE, advertise="broker.example:1234") as broker:
        asked = asyncio.to_thread(AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics)
        (node,) = (await asked).brokers.values()
        assert (node.host, node.port) == ("broker.example", 1234)


# ---- in a test -----------------------------------------------------------------------------------------


def test_the_test_kits_broker_serves_blocking_clients() -> None:
    with headwater.testing.broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", b"value")
        assert producer.flush(60) == 0
        options = {"group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, **options})
        consumer.subscribe(["t"])
        message = consumer.poll(60)
        assert message is not None
        assert message.value() == b"value"
        consumer.close()
        folder = broker.data
        assert folder.exists()
    assert not folder.exists(), "a temporary folder goes with its broker"


def test_the_test_kits_broker_keeps_data_that_was_given(data: Path) -> None:
    for number in range(2):
        with headwater.testing.broker(data) as broker, connected(broker.bootstrap) as wire:
            wire.ask("metadata", 12, topics=[{"name": "t"}], allow_auto_topic_creation=True)
            assert produce(wire, "t", batch()).base_offset == number
    assert data.exists()


def test_two_test_brokers_at_once_and_one_inside_the_other() -> None:
    with (
        headwater.testing.broker() as first,
        headwater.testing.broker(settings={"num.partitions": 2}) as second,
        connected(first.bootstrap) as one,
        connected(second.bootstrap) as two,
    ):
        counts = []
        for wire in (one, two):
            asked = {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}
            counts.append(len(wire.ask("metadata", 12, **asked).topics[0].partitions))
        assert counts == [1, 2]
        produce(one, "t", batch())
        assert (end_offset(one, "t"), end_offset(two, "t")) == (1, 0)


def test_an_exception_in_the_test_comes_out_and_the_broker_is_gone() -> None:
    threads = set(threading.enumerate())
    with pytest.raises(ZeroDivisionError), headwater.testing.broker() as broker:
        raise ZeroDivisionError
    with pytest.raises(ConnectionRefusedError):
        Wire(broker.bootstrap)
    assert set(threading.enumerate()) <= threads


def test_a_test_broker_that_cannot_start_says_so_and_leaves_nothing(data: Path) -> None:
    threads = set(threading.enumerate())
    with headwater.testing.broker(data) as first:
        second = headwater.testing.broker(data)
        with pytest.raises(headwater.HeadwaterError, match="in use by another broker"), second:
            pass
        second = headwater.testing.broker(listen=first.bootstrap)
        with pytest.raises(headwater.HeadwaterError, match="cannot listen on"), second:
            pass
    assert set(threading.enumerate()) <= threads


def test_a_test_may_turn_the_brokers_clock() -> None:
    clock = ManualClock()
    with headwater.testing.broker(clock=clock) as broker, connected(broker.bootstrap) as wire:
        configs = [{"name": "message.timestamp.type", "value": "LogAppendTime"}]
        asked = {"name": "t", "num_partitions": 1, "replication_factor": 1, "configs": configs}
        wire.ask("create_topics", 7, topics=[asked], timeout=9000)
        times = []
        for _ in range(2):
            told = produce(wire, "t", batch()).log_append_time
            times.append(round(told.timestamp() * 1000))
            clock.advance(86_400_000)
        assert times[1] - times[0] == 86_400_000


# ---- as a process ----------------------------------------------------------------------------------------


def test_the_ready_line_is_true_when_it_is_printed(data: Path) -> None:
    with broker_process(data) as process:
        with process.wire() as wire:  # at once: no waiting for the port
            assert wire.versions
        assert process.stop() == 0
        assert process.process.stdout is not None
        assert process.process.stdout.read() == "headwater: stopped, everything is on disk\n"
        assert process.said == "", "a quiet life leaves nothing on stderr"


def test_a_stop_that_could_not_write_everything_does_not_say_that_it_has(data: Path) -> None:
    with broker_process(data) as process:
        (data / ".kafka_cleanshutdown" / "in the way").mkdir(parents=True)
        assert process.stop() == 0
        assert process.process.stdout is not None
        said = process.process.stdout.read()
        assert said.startswith("headwater: stopped, but not everything could be written")
        assert "everything is on disk" not in said
        assert "not closed cleanly" in process.said


def test_an_ordinary_life_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), headwater.testing.broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce("t", b"value")
        assert producer.flush(60) == 0
    assert not [record.getMessage() for record in caplog.records]
