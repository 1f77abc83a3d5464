"""Many requests on one connection: answered in order, and a client that does not read waits alone."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path
from typing import Any

from tests.broker.bystander import Bystander
from tests.broker.processes import broker_process
from tests.broker.serving import Serving, create
from tests.compat.asking import end_offset, fetch_request, produce, produce_request
from tests.compat.batches import batch, read_batches
from tests.compat.waiting import AT_ONCE_SECONDS, LONG_MS, until
from tests.compat.wire import ErrorCode, Wire

MEGABYTE = 1024**2


def test_five_hundred_requests_written_at_once_are_answered_in_order(
    shared: Serving, wire: Wire, topic: str
) -> None:
    shared.create(topic)
    sent: list[int] = []
    records = batch([(b"k", b"v" * 100)])
    for number in range(100):
        sent.append(wire.send("produce", 9, **produce_request(topic, records)))
        sent.append(wire.send("metadata", 12, topics=[{"name": topic}]))
        sent.append(wire.send("fetch", 12, **fetch_request(topic, number, max_wait=10)))
        sent.append(wire.send("api_versions", 3, client_software_name="x"))
        sent.append(wire.send("list_offsets", 7, replica_id=-1, topics=[_latest(topic)]))
    answers = [wire.receive() for _ in sent]
    assert [correlation for correlation, _ in answers] == sent
    offsets = [answer.responses[0].partition_responses[0].base_offset for _, answer in answers[::5]]
    assert offsets == list(range(100))
    ends = [answer.topics[0].partitions[0].offset for _, answer in answers[4::5]]
    assert ends == list(range(1, 101)), "each request sees what the ones before it did"


def _latest(topic: str) -> Any:
    return {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}


def test_five_hundred_produce_requests_written_at_once_keep_their_order(
    shared: Serving, wire: Wire, topic: str
) -> None:
    shared.create(topic, 3)
    for number in range(500):
        records = batch([(None, b"%d" % number)])
        wire.send("produce", 9, **produce_request(topic, records, number % 3))
    rows = [wire.receive()[1].responses[0].partition_responses[0] for _ in range(500)]
    assert {row.error_code for row in rows} == {ErrorCode.none}
    assert [row.base_offset for row in rows] == [number // 3 for number in range(500)]


def test_unanswered_produce_requests_between_others_leave_no_gap(
    shared: Serving, wire: Wire, topic: str
) -> None:
    shared.create(topic)
    for number in range(100):
        acks = (0, -1)[number % 2]
        request = produce_request(topic, batch(), 0, acks)
        wire.send("produce", 9, answer=acks != 0, **request)
    rows = [wire.receive()[1].responses[0].partition_responses[0] for _ in range(50)]
    assert [row.base_offset for row in rows] == list(range(1, 100, 2))


def test_large_answers_written_at_once_come_whole_and_in_order(
    shared: Serving, wire: Wire, topic: str
) -> None:
    """More than the sockets hold: the broker has to stop and go on as the client reads."""
    shared.create(topic)
    produce(wire, topic, batch([(None, bytes(500_000))]))
    sent = [wire.send("fetch", 12, **fetch_request(topic)) for _ in range(60)]
    answers = [wire.receive() for _ in sent]
    assert [correlation for correlation, _ in answers] == sent
    for _, answer in answers:
        (found,) = read_batches(answer.responses[0].partitions[0].records)
        assert found.pairs == [(None, bytes(500_000))]


def test_requests_may_come_one_byte_at_a_time(shared: Serving, topic: str) -> None:
    shared.create(topic)
    with shared.wire() as slow:
        slow._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        whole = _bytes_of(produce_request(topic, batch([(b"k", b"value")])))
        for position in range(len(whole)):
            slow.send_unframed(whole[position : position + 1])
        slow.receive_bytes()
        assert end_offset(slow, topic) == 1


def test_requests_may_be_cut_anywhere(shared: Serving, topic: str) -> None:
    shared.create(topic)
    whole = _bytes_of(produce_request(topic, batch([(b"k", b"v" * 300)]))) * 3
    with shared.wire() as wire:
        for size in (7, 64, 211, 1000):
            for position in range(0, len(whole), size):
                wire.send_unframed(whole[position : position + size])
            for _ in range(3):
                wire.receive_bytes()
        assert end_offset(wire, topic) == 12


def _bytes_of(request: Any) -> bytes:
    """A produce request as it goes over the wire."""
    taken: list[bytes] = []

    class Paper(Wire):
        def __init__(self) -> None:
            self._correlation, self._waiting = iter([1]), {}  # type: ignore[assignment]

        def send_bytes(self, request: bytes) -> None:
            taken.append(struct.pack(">i", len(request)) + request)

    Paper().send("produce", 9, **request)
    return taken[0]


def test_a_client_that_never_reads_costs_bounded_memory_and_slows_nobody(tmp_path: Path) -> None:
    with broker_process(tmp_path / "data", words=["--durability=os"]) as process:
        with process.wire() as wire:
            create(wire, "large", max_message_bytes=2 * MEGABYTE)
            for _ in range(16):
                produce(wire, "large", batch([(None, bytes(MEGABYTE))]))
        wanted = fetch_request("large", partition_max_bytes=16 * MEGABYTE)
        with Bystander(process.bootstrap) as bystander, process.wire() as deaf:
            before = process.resident_bytes
            for _ in range(300):
                deaf.send("fetch", 12, **wanted)
            bystander.goes_on(100)
            assert process.resident_bytes - before < 48 * MEGABYTE, "one answer of 16 MB, not 300"
            assert bystander.slowest < AT_ONCE_SECONDS
            for _ in range(2):
                assert len(deaf.receive()[1].responses[0].partitions[0].records) > 15 * MEGABYTE


def test_a_client_that_reads_slowly_gets_all_of_it(shared: Serving, wire: Wire, topic: str) -> None:
    shared.create(topic)
    for _ in range(10):
        produce(wire, topic, batch([(None, bytes(900_000))]))
    with shared.wire() as slow:
        slow.send("fetch", 12, **fetch_request(topic, partition_max_bytes=9_000_000))
        received = bytearray()
        size = struct.unpack(">i", slow._exactly(4))[0]
        while len(received) < size:
            received += slow._exactly(min(400_000, size - len(received)))
            assert end_offset(wire, topic) == 10, "others are served in between"
        assert received.count(bytes(100_000)) >= 80


def test_many_waiting_consumers_are_all_woken(shared: Serving, topic: str) -> None:
    shared.create(topic)
    wires = [Wire(shared.bootstrap) for _ in range(20)]
    for each in wires:
        each.send("fetch", 12, **fetch_request(topic, max_wait=LONG_MS))
    waiting = shared.broker.sessions.waiting
    until(lambda: shared.call(lambda: len(waiting) == 20), "all of them to wait")
    begin = time.monotonic()
    with shared.wire() as producer:
        produce(producer, topic, batch())
    for each in wires:
        assert each.receive()[1].responses[0].partitions[0].records
        each.close()
    assert time.monotonic() - begin < AT_ONCE_SECONDS
