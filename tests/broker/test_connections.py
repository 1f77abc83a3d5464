"""Whatever a client sends or leaves out harms its own connection only, and is told in the log."""

from __future__ import annotations

import logging
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.bystander import Bystander
from tests.broker.processes import BrokerProcess, broker_process
from tests.broker.serving import Serving, serving
from tests.compat.asking import fetch_request
from tests.compat.waiting import until
from tests.compat.wire import API_KEYS, ConnectionClosed, ErrorCode, Wire, connected

MEGABYTE = 1024**2
CLIENT_HELLO = bytes.fromhex("1603010200010001fc0303") + bytes(500)
LIMIT = 1_000_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    settings = {"socket.request.max.bytes": LIMIT}
    with serving(tmp_path_factory.mktemp("connections") / "data", settings) as running:
        yield running


@pytest.fixture(scope="module")
def bystander(broker: Serving) -> Iterator[Bystander]:
    with Bystander(broker.bootstrap) as running:
        yield running


def frame(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


def header(api: str, version: int) -> bytes:
    return struct.pack(">hhih", API_KEYS[api], version, 1, -1)


def say_goodbye(wire: Wire) -> None:
    """Nothing more will be sent; what was sent may still be answered."""
    wire._socket.shutdown(socket.SHUT_WR)


def only_the_bystander_is_there(broker: Serving) -> None:
    until(
        lambda: broker.call(lambda: len(broker.broker.connections)) == 1,
        "the broker to forget all clients but the bystander",
        60,
    )


NONSENSE = {
    "a length of zero": (struct.pack(">i", 0), "a request of 0 bytes"),
    "a negative length": (struct.pack(">i", -1), "a request of -1 bytes"),
    "one byte too many": (struct.pack(">i", LIMIT + 1), "socket.request.max.bytes is 1000000"),
    "the largest length": (struct.pack(">i", 2**31 - 1), "a request of 2147483647 bytes"),
    "half a header": (frame(b"\0\3\0\1\0"), "a request of 5 bytes"),
    "an unknown key": (frame(struct.pack(">hhih", 999, 0, 1, -1)), "API 999 is not known"),
    "a negative key": (frame(struct.pack(">hhih", -1, 0, 1, -1)), "API -1 is not known"),
    "a version to come": (frame(header("metadata", 99)), "Metadata version 99 is not supported"),
    "a version gone by": (frame(header("produce", 0)), "Produce version 0 is not supported"),
    "a negative version": (frame(header("fetch", -3)), "Fetch version -3 is not supported"),
    "a client id that is too long": (
        frame(struct.pack(">hhih", 3, 1, 1, 500) + b"abc"),
        "client id length 500",
    ),
    "a client id that is no text": (
        frame(struct.pack(">hhih", 3, 1, 1, 2) + b"\xff\xfe\0\0\0\0"),
        "the client id is not UTF-8",
    ),
    "an array that is not there": (
        frame(header("metadata", 1) + struct.pack(">i", 2_000_000_000)),
        "an array of 2000000000 elements in 0 bytes",
    ),
    "a body cut short": (frame(header("fetch", 12) + b"\0\0\0"), "the request ends"),
    "TLS": (CLIENT_HELLO, "a request of 369295618 bytes"),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", "a request of 1195725856 bytes"),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_closes_its_connection_with_the_reason_in_the_log(
    broker: Serving, bystander: Bystander, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    sent, reason = NONSENSE[name]
    with caplog.at_level(logging.WARNING), broker.wire() as wire:
        wire.send_unframed(sent)
        with pytest.raises(ConnectionClosed):
            wire.receive_bytes()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("closing the connection of 127.0.0.1: ")
    assert reason in said
    bystander.goes_on()


def test_random_bytes_end_their_connections_and_nothing_else(
    broker: Serving, bystander: Bystander, caplog: pytest.LogCaptureFixture
) -> None:
    dice = random.Random(20)
    for _ in range(200):
        with broker.wire() as wire:
            try:
                wire.send_unframed(dice.randbytes(dice.randrange(4, 3000)))
                say_goodbye(wire)
                wire.receive_bytes()
            except (ConnectionClosed, ConnectionError):
                pass
    bystander.goes_on()
    assert not [record for record in caplog.records if record.exc_info], "a traceback is no reason"


def test_random_bodies_of_every_api_are_answered_or_end_their_connection(
    broker: Serving, bystander: Bystander, caplog: pytest.LogCaptureFixture
) -> None:
    dice = random.Random(30)
    with broker.wire() as wire:
        versions = wire.versions
    for key, (low, high) in versions.items():
        for version in (low, high):
            for _ in range(3):
                body = dice.choice((dice.randbytes(40), bytes(dice.randrange(60))))
                with broker.wire() as wire:
                    wire.send_bytes(struct.pack(">hhih", key, version, 1, -1) + body)
                    say_goodbye(wire)
                    try:
                        wire.receive_bytes()
                    except ConnectionClosed:
                        pass
    bystander.goes_on()
    tracebacks = [record for record in caplog.records if record.exc_info]
    assert not tracebacks, tracebacks[0].exc_info


def test_half_a_request_and_silence_keeps_nobody_waiting(
    broker: Serving, bystander: Bystander
) -> None:
    whole = frame(header("metadata", 1) + struct.pack(">i", 0))
    halves = [Wire(broker.bootstrap) for _ in whole]
    for length, half in enumerate(halves):
        half.send_unframed(whole[:length])
    bystander.goes_on()
    for length, half in enumerate(halves):
        half.send_unframed(whole[length:])
        assert half.receive_bytes()[:4] == struct.pack(">i", 1)
        half.close()


def test_half_a_request_and_farewell_leaves_nothing_behind(
    broker: Serving, bystander: Bystander
) -> None:
    # Not "as many as before": clients of an earlier test may be on their way out just then.
    only_the_bystander_is_there(broker)
    whole = frame(header("metadata", 1) + struct.pack(">i", 0))
    for length in range(len(whole)):
        with broker.wire() as wire:
            wire.send_unframed(whole[:length])
    only_the_bystander_is_there(broker)
    assert broker.call(lambda: broker.broker.memory.used["requests"]) < 10_000
    bystander.goes_on()


def test_a_client_that_leaves_while_its_requests_wait_is_forgotten(
    broker: Serving, bystander: Bystander, topic: str
) -> None:
    broker.create(topic)
    waiting = broker.broker.sessions.waiting
    with broker.wire() as wire:
        for _ in range(3):
            wire.send("fetch", 12, **fetch_request(topic, max_wait=60_000))
        until(lambda: broker.call(lambda: len(waiting)), "the fetch to wait")
    until(lambda: not broker.call(lambda: len(waiting)), "the fetch to be forgotten")
    assert not broker.log(topic).next_offset
    bystander.goes_on()


# ---- limits --------------------------------------------------------------------------------------


def test_one_connection_more_than_allowed_is_closed_at_once(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(data, {"max.connections": 3}) as broker:
        allowed = [Wire(broker.bootstrap) for _ in range(3)]
        assert [bool(wire.versions) for wire in allowed] == [True] * 3
        with broker.wire() as fourth, pytest.raises((ConnectionClosed, ConnectionError)):
            fourth.ask("api_versions", 0)
        assert "max.connections are open" in caplog.text
        allowed.pop().close()
        until(lambda: _is_answered(broker.bootstrap), "room for another connection")
        for wire in allowed:
            assert wire.ask("api_versions", 0).api_keys
            wire.close()


def test_the_bound_per_address_leaves_other_addresses_alone(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(data, {"max.connections.per.ip": 2}) as broker:
        mine = [Wire(broker.bootstrap) for _ in range(2)]
        assert [bool(wire.versions) for wire in mine] == [True] * 2
        assert not _is_answered(broker.bootstrap)
        assert "max.connections.per.ip are open" in caplog.text
        assert _is_answered(broker.bootstrap, source="127.0.0.2")
        for wire in mine:
            wire.close()
        until(lambda: _is_answered(broker.bootstrap), "room for this address")


def _is_answered(bootstrap: str, source: str = "127.0.0.1") -> bool:
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), 10, source_address=(source, 0)) as client:
        try:
            client.sendall(frame(header("api_versions", 0)))
            return len(client.recv(4)) == 4
        except ConnectionError:
            return False


def test_an_idle_connection_is_closed_and_a_waiting_one_is_not(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.INFO),
        serving(data, {"connections.max.idle.ms": 400}) as broker,
        broker.wire() as idle,
        broker.wire() as half,
        broker.wire() as waiting,
    ):
        broker.create("t")
        assert idle.versions
        half.send_unframed(struct.pack(">i", 1000) + b"\0\3")
        waiting.send("fetch", 12, **fetch_request("t", max_wait=2100))
        for gone in (idle, half):
            with pytest.raises(ConnectionClosed):
                gone.receive_bytes()
        assert waiting.receive()[1].error_code.name == "none"
    said = [r.getMessage() for r in caplog.records if "closing the connection" in r.getMessage()]
    assert len(said) >= 2
    assert all("connections.max.idle.ms" in sentence for sentence in said)


# ---- memory --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # Kafka's backlog of 50 makes a burst of connections wait a second for the kernel's next try.
    data = tmp_path_factory.mktemp("process") / "data"
    with broker_process(data, "socket.listen.backlog.size=4096") as running:
        yield running


def test_thousands_of_connections_that_come_and_go_leave_no_trace(process: BrokerProcess) -> None:
    def visit(count: int) -> None:
        for number in range(count):
            with connected(process.bootstrap) as wire:
                if number % 3 == 1:
                    wire.send_unframed(b"\0\0")
                elif number % 3 == 2:
                    wire.send_unframed(frame(header("api_versions", 0)))

    with Bystander(process.bootstrap, "visits") as bystander:
        visit(500)  # what is imported and pooled once is no trace
        before = process.resident_bytes
        visit(2500)
        bystander.goes_on()
        assert process.resident_bytes - before < 8 * MEGABYTE


def test_announced_lengths_cost_no_memory_until_the_bytes_are_there(process: BrokerProcess) -> None:
    with Bystander(process.bootstrap, "lengths") as bystander:
        before = process.resident_bytes
        liars = [Wire(process.bootstrap) for _ in range(100)]
        for liar in liars:
            liar.send_unframed(struct.pack(">i", 100 * MEGABYTE) + b"\0\0\0\7")
        bystander.goes_on(20)
        assert process.resident_bytes - before < 16 * MEGABYTE
        for liar in liars:
            liar.close()
        bystander.goes_on()


@pytest.mark.parametrize("name", ["max.connections", "max.connections.per.ip"])
def test_no_setting_may_lock_everybody_out(data: Path, name: str) -> None:
    with serving(data) as broker, broker.wire() as wire:
        change = {"name": name, "config_operation": 0, "value": "0"}
        asked = [{"resource_type": 4, "resource_name": "", "configs": [change]}]
        answer = wire.ask("incremental_alter_configs", 1, resources=asked, validate_only=False)
        assert answer.responses[0].error_code is ErrorCode.invalid_request
        broker.run(
            broker.broker.catalogue.set_broker_configs("", {name: "0"})
        )  # of an older broker
    with serving(data) as broker, broker.wire() as wire:
        assert wire.ask("metadata", 12, topics=None).brokers
