"""A listening socket outlives whatever `accept` says."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import pytest

from headwater.broker.security import acceptor
from headwater.broker.security.acceptor import Acceptor, Arrival, Entrance
from headwater.broker.security.handshakes import Handshakes
from tests.compat.waiting import PATIENCE_SECONDS
from tests.security.tls_clients import LOOPS


class Troubled(socket.socket):
    """A listening socket whose `accept` fails for some time."""

    failures: list[int]

    def accept(self) -> tuple[socket.socket, object]:
        if self.failures:
            number = self.failures.pop(0)
            raise OSError(number, os.strerror(number))
        return super().accept()


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport) or hasattr(transport, "write")
        transport.write(b"hello")
        transport.close()


async def _greeted(failures: list[int]) -> list[int]:
    """What was told, when a client has come in after all."""
    listening = Troubled()
    listening.failures = failures
    listening.bind(("127.0.0.1", 0))
    told: list[int] = []
    entrance = Entrance(
        admit=lambda sock, host: Arrival(Greeting, lambda: None),
        failed=lambda error: told.append(0 if error is None else error.errno or -1),
        context=lambda: None,
    )
    accepting = Acceptor(listening, entrance, Handshakes())
    accepting.open(16)
    try:
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        assert await asyncio.wait_for(reader.read(), PATIENCE_SECONDS) == b"hello"
        writer.close()
        await writer.wait_closed()
    finally:
        accepting.close()
        await accepting.wait_closed()
    return told


@pytest.mark.parametrize("loop_name", LOOPS)
@pytest.mark.parametrize(
    "number",
    [errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EPROTO, errno.EPERM],
    ids=errno.errorcode.get,
)
def test_an_error_of_accept_is_told_and_the_listener_goes_on(
    number: int, loop_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "REST_S", 0.01)
    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        assert runner.run(_greeted([number] * 3)) == [number] * 3 + [0]


@pytest.mark.parametrize("loop_name", LOOPS)
def test_a_client_that_has_gone_again_is_no_error(loop_name: str) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
        assert runner.run(_greeted([errno.ECONNABORTED] * 40)) == []


def test_a_listener_that_cannot_be_watched_for_a_while_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acceptor, "REST_S", 0.01)
    failures = [errno.ENOSPC] * 3

    async def greeted() -> list[int]:
        loop = asyncio.get_running_loop()
        watch = loop.add_reader

        def troubled(place: int, callback: object, *arguments: object) -> None:
            if getattr(callback, "__func__", None) is Acceptor._accept and failures:
                number = failures.pop()
                raise OSError(number, os.strerror(number))
            watch(place, callback, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(loop, "add_reader", troubled)
        return await _greeted([])

    assert asyncio.run(greeted()) == [errno.ENOSPC] * 3 + [0]
