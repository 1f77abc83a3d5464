"""A producer that is faster than the disk waits; the broker's memory does not grow with what it sends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kio.index import load_entity_schema
from kio.static.constants import EntityType

from headwater.testing.clock import ManualClock
from tests.broker.disks import HandDisk
from tests.broker.processes import BrokerProcess, broker_process
from tests.broker.serving import create, serving
from tests.compat.asking import end_offset, produce_request
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire, build, encode

MEGABYTE = 1024**2
QUEUED = 8 * MEGABYTE
RECORDS = batch([(None, bytes(1_000_000))])


@contextmanager
def slow_broker(folder: Path, seconds: float = 0.1) -> Iterator[BrokerProcess]:
    program = ("-m", "tests.broker.slow_disk", str(seconds))
    setting = f"queued.max.request.bytes={QUEUED}"
    with broker_process(folder / "data", setting, program=program) as process:
        with process.wire() as wire:
            create(wire, "t", 2)
        yield process


class Highest:
    """The most memory that a process has had while this was looking."""

    def __init__(self, process: BrokerProcess) -> None:
        self.bytes = 0
        self._process = process
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Highest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.01):
            self.bytes = max(self.bytes, self._process.resident_bytes)


def push(wire: Wire, count: int, partition: int, acks: int = -1) -> None:
    """Send without reading answers, as fast as the broker takes it."""
    for _ in range(count):
        request = produce_request("t", RECORDS, partition, acks)
        wire.send("produce", 9, answer=acks != 0, **request)


def test_ten_times_the_queue_is_taken_in_bounded_memory_and_all_acknowledged(
    tmp_path: Path,
) -> None:
    with slow_broker(tmp_path) as process, process.wire() as bystander:
        producers = [Wire(process.bootstrap, timeout=60) for _ in range(8)]
        before, answered = process.resident_bytes, 0
        with Highest(process) as highest:
            threads = [
                threading.Thread(target=push, args=(wire, 15, number % 2), daemon=True)
                for number, wire in enumerate(producers)
            ]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads):
                assert bystander.ask("metadata", 12, topics=[{"name": "t"}]).topics
                answered += 1
            rows = [
                wire.receive()[1].responses[0].partition_responses[0]
                for wire in producers
                for _ in range(15)
            ]
        assert {row.error_code for row in rows} == {ErrorCode.none}
        assert end_offset(bystander, "t", 0) == end_offset(bystander, "t", 1) == 60
        # What is queued, and for each producer its buffer and the request that it had begun.
        assert highest.bytes - before < QUEUED + 8 * 4 * MEGABYTE, "120 MB were sent"
        # Sixty requests of a partition share a few waits for the disk; an answer needs none.
        assert answered > 60, "the others wait for nobody's disk"
        for wire in producers:
            wire.close()


def test_producers_that_want_no_answer_meet_it_too(tmp_path: Path) -> None:
    with slow_broker(tmp_path, 0.15) as process, process.wire() as bystander:
        before = process.resident_bytes
        with Highest(process) as highest, process.wire() as wire:
            push(wire, 80, 0, acks=0)
            until(lambda: end_offset(bystander, "t") == 80, "all of it to be stored")
        assert highest.bytes - before < QUEUED + 32 * MEGABYTE, "80 MB were sent"


def test_producers_that_leave_without_their_answers_meet_it_too(data: Path) -> None:
    """Each sends one request and is gone; they wait in their sockets, not in the broker."""
    disk, highest = HandDisk(), [0]
    disk.on("sync", lambda path: time.sleep(0.1), "t-0/*.log")
    with serving(data, {"queued.max.request.bytes": QUEUED}, files=disk) as broker:
        broker.create("t")

        def held() -> int:
            """Bytes of requests that are under way, or on their way in."""
            running = broker.broker
            return running.memory.used["requests"] + sum(
                len(c.inbound.frames) for c in running.connections
            )

        with broker.wire() as bystander:
            for _ in range(150):
                with broker.wire() as wire:
                    push(wire, 1, 0)
                    wire._socket.shutdown(socket.SHUT_WR)
                highest.append(broker.call(held))
            while end_offset(bystander, "t") < 150:
                highest.append(broker.call(held))
        assert max(highest) < QUEUED + 48 * MEGABYTE, "150 MB were sent"


def test_nobody_is_dropped_for_the_time_that_the_broker_did_not_read(data: Path) -> None:
    """
    client  |half a request……………………|the rest
    broker  |reads |does not read, 100 s |reads   while others wait for memory
    """
    clock = ManualClock()
    with serving(data, clock=clock) as broker, broker.wire() as wire:
        broker.create("t")
        until(lambda: len(broker.broker.connections) == 1, "only this connection")
        (connection,) = broker.broker.connections
        schema = load_entity_schema("produce", 9, EntityType.request)
        request = encode(build(schema, produce_request("t", RECORDS), False), 1)
        frame = len(request).to_bytes(4, "big") + request
        wire.send_unframed(frame[:1000])
        until(lambda: len(connection.inbound.frames) >= 1000, "half a request")

        def silence() -> None:
            connection.inbound.mute(1000)  # as a quota does, and memory that is full
            clock.advance(100_000)

        def go_on() -> None:
            connection.inbound._unmute()
            connection.drop_if_stalled(clock.monotonic())

        broker.call(silence)
        broker.call(lambda: connection.drop_if_stalled(clock.monotonic()))
        broker.call(go_on)
        assert not broker.call(lambda: connection.is_closing), "its bytes may be in the socket"
        wire.send_unframed(frame[1000:])
        assert wire.receive_bytes(), "the whole request is answered"


def test_reading_stops_while_the_queue_is_full_and_goes_on_when_it_is_not(data: Path) -> None:
    disk = HandDisk()
    with serving(data, {"queued.max.request.bytes": QUEUED}, files=disk) as broker:
        broker.create("t")
        wires = [Wire(broker.bootstrap, timeout=60) for _ in range(4)]
        threads = [threading.Thread(target=push, args=(wire, 20, 0), daemon=True) for wire in wires]
        with disk.held("sync", "t-0/*.log") as held:
            for thread in threads:
                thread.start()
            held.until_reached()
            until(
                lambda: broker.call(lambda: broker.broker.memory.is_waited_for),
                "the queue to be full",
            )
            with broker.wire() as other:  # each round trip is a turn in which more could be read
                for _ in range(50):
                    assert other.versions
                    assert other.ask("metadata", 12, topics=[{"name": "t"}]).topics
            queued = broker.call(lambda: broker.broker.memory.used["requests"])
            assert queued <= QUEUED + 4 * len(RECORDS) + 10_000
            assert broker.call(lambda: broker.log("t").next_offset) < 80, "all of it was taken in"
            held.release()
            answers = [wire.receive()[1] for wire in wires for _ in range(20)]
        for thread in threads:
            thread.join()
        rows = [answer.responses[0].partition_responses[0] for answer in answers]
        assert sorted(row.base_offset for row in rows) == list(range(80))
        assert broker.call(lambda: broker.broker.memory.used["requests"]) == 0
        for wire in wires:
            wire.close()


def test_one_connection_has_a_bounded_number_of_requests_under_way(data: Path) -> None:
    """However small they are: the rest stays in the client's socket."""
    disk = HandDisk()
    with serving(data, files=disk) as broker, broker.wire() as wire:
        broker.create("t")
        with disk.held("sync", "t-0/*.log") as held:
            wire.send("produce", 9, **produce_request("t", batch()))
            held.until_reached()
            sender = threading.Thread(target=_send_many, args=(wire, 6000), daemon=True)
            sender.start()
            with broker.wire() as other:
                for _ in range(200):
                    other.ask("metadata", 12, topics=[{"name": "t"}])
            staged = broker.call(lambda: broker.log("t").next_offset)
            assert staged < 2000, "the connection read on and on"
            held.release()
            for _ in range(6001):
                wire.receive_bytes()
        sender.join()
        assert broker.call(lambda: broker.log("t").durable_offset) == 6001


def _send_many(wire: Wire, count: int) -> None:
    request = produce_request("t", batch())
    for _ in range(count):
        wire.send("produce", 9, **request)


def test_no_bound_means_no_bound(data: Path) -> None:
    disk = HandDisk()
    with serving(data, {"queued.max.request.bytes": -1}, files=disk) as broker:
        broker.create("t")
        with disk.held("sync", "t-0/*.log") as held, broker.wire() as wire:
            push(wire, 8, 0)
            held.until_reached()
            wanted = 8
            until(lambda: broker.call(lambda: broker.log("t").next_offset) == wanted, "all eight")
            assert not broker.call(lambda: broker.broker.memory.is_exhausted)
            held.release()
            for _ in range(8):
                wire.receive()
