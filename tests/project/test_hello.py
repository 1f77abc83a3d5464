"""Who answers at an address: a broker, something else, or nobody."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.project.broker_process import BrokerProcess
from headwater.project.hello import Answer, hello


@contextmanager
def server_that_answers(reply: bytes) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(100)
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_a_broker_is_known_by_its_answer(tmp_path: Path):
    with BrokerProcess(tmp_path / "log") as broker:
        broker.start()
        assert hello(broker.bootstrap, 5.0) is Answer.BROKER
        broker.stop()
        assert hello(broker.bootstrap, 5.0) is Answer.NOBODY


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 400 Bad Request\r\n", b"\0\0\0\4", b"\0" * 8])
def test_another_server_is_not_taken_for_a_broker(reply: bytes):
    with server_that_answers(reply) as address:
        assert hello(address, 5.0) is Answer.SILENCE


def test_a_server_that_says_nothing_costs_no_more_than_the_time_allowed():
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert hello(f"127.0.0.1:{server.getsockname()[1]}", 0.05) is Answer.SILENCE


@pytest.mark.parametrize(
    "address", ["", ":", "host", "127.0.0.1:", "127.0.0.1:1", "a..b:1", "::1:x"]
)
def test_what_is_no_address_is_nobody(address: str):
    assert hello(address, 1.0) is Answer.NOBODY
