"""Callbacks of Spark's in a process that has many files open."""

from __future__ import annotations

import fcntl
import resource
import socket
from collections.abc import Iterator

import pytest

from tests.conftest import PollAsSelect

HIGH = 1500


@pytest.fixture(autouse=True)
def many_files() -> Iterator[None]:
    before = soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2 * HIGH), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_socket_with_a_high_number_is_waited_for() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as low,
        socket.socket(fileno=fcntl.fcntl(low, fcntl.F_DUPFD, HIGH)) as server,
    ):
        assert server.fileno() >= HIGH
        assert PollAsSelect.select([server], [], [], 0)[0] == []
        with socket.create_connection(server.getsockname()):
            assert PollAsSelect.select([server], [], [], 60)[0] == [server]
