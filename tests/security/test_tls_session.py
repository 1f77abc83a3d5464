"""Bytes through TLS, in both directions and at every pace, on both event loops."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from headwater.broker.security import turns
from headwater.broker.security.acceptor import Acceptor, Arrival, Entrance
from headwater.broker.security.handshakes import Handshakes
from headwater.broker.security.tls_records import (
    FEW,
    LARGE_BYTES,
    READ_BYTES,
    USELESS_MAX,
    Records,
)
from headwater.broker.security.tls_session import TlsSession
from tests.compat.waiting import PATIENCE_SECONDS, until
from tests.security.key_updates import Sender, logged
from tests.security.servers import Certificates
from tests.security.tls_clients import LOOPS, connect, greeted, trusting

MEGABYTE = 1024**2


class Echo(asyncio.Protocol):
    """Sends back what it gets, and notes what happens to it."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen
        self.taken = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, TlsSession)
        self.transport = transport
        self.seen.append("made")

    def data_received(self, data: bytes) -> None:
        self.taken += len(data)
        self.answer(data)

    def answer(self, data: bytes) -> None:
        self.transport.write(data)

    def pause_writing(self) -> None:
        self.seen.append("stuck")
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self.transport.resume_reading()

    def eof_received(self) -> None:
        self.seen.append("eof")

    def connection_lost(self, error: Exception | None) -> None:
        self.seen.append("lost")


class BufferedEcho(asyncio.BufferedProtocol):
    """The same, with a buffer of its own."""

    def __init__(self, seen: list[str]) -> None:
        self.inner = Echo(seen)
        self.view = memoryview(bytearray(5000))
        self.connection_made = self.inner.connection_made  # type: ignore[method-assign]
        self.connection_lost = self.inner.connection_lost  # type: ignore[method-assign]
        self.eof_received = self.inner.eof_received  # type: ignore[method-assign]
        self.pause_writing = self.inner.pause_writing  # type: ignore[method-assign]
        self.resume_writing = self.inner.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.view

    def buffer_updated(self, count: int) -> None:
        self.inner.data_received(bytes(self.view[:count]))


class Paused(Echo):
    """Stops reading after each piece, for a turn."""

    def answer(self, data: bytes) -> None:
        self.transport.pause_reading()
        assert not self.transport.is_reading()
        asyncio.get_running_loop().call_soon(self.transport.resume_reading)
        super().answer(data)


class Careless(Echo):
    """Goes on, whether the client takes it or not."""

    def pause_writing(self) -> None:
        self.seen.append("stuck")

    def resume_writing(self) -> None:
        self.seen.append("free")


class Ending(Echo):
    """Sends back in many pieces, says that this is all, and waits for the client to go."""

    def answer(self, data: bytes) -> None:
        pieces = [b"", data[:3], memoryview(data)[3:90_000], data[90_000:]]
        self.transport.writelines(pieces)
        self.transport.write_eof()
        self.transport.write(b"too late")


class Farewell(Echo):
    def answer(self, data: bytes) -> None:
        super().answer(data)
        self.transport.close()


class Quiet(Echo):
    def answer(self, data: bytes) -> None:
        """It takes what comes, and says nothing."""


Make = Callable[[list[str]], asyncio.BaseProtocol]


@pytest.fixture(params=LOOPS)
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop]:
    made = LOOPS[request.param]()
    thread = threading.Thread(target=made.run_forever, name="tls-under-test", daemon=True)
    thread.start()
    yield made
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


@pytest.fixture
def client(certificates: Certificates) -> ssl.SSLContext:
    return trusting(certificates.authority.certificate)


@contextlib.contextmanager
def serving(
    loop: asyncio.AbstractEventLoop, certificates: Certificates, make: Make
) -> Iterator[tuple[str, list[str]]]:
    """Its address, and what its protocols have seen."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server.bundle)
    seen: list[str] = []
    entrance = Entrance(
        admit=lambda sock, host: Arrival(partial(make, seen), lambda: seen.append("left")),
        failed=lambda error: seen.append(str(error)),
        context=lambda: context,
    )
    listening = socket.create_server(("127.0.0.1", 0))
    host, port = listening.getsockname()
    handshakes = Handshakes()
    accepting = Acceptor(listening, entrance, handshakes)

    async def begin() -> None:
        accepting.open(16)

    async def end() -> None:
        accepting.close()
        await accepting.wait_closed()
        handshakes.close()

    asyncio.run_coroutine_threadsafe(begin(), loop).result(60)
    try:
        yield f"{host}:{port}", seen
        until(lambda: seen.count("made") == seen.count("lost"), "the connections to be gone")
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result(60)


def received(sock: ssl.SSLSocket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count and (data := sock.recv(MEGABYTE)):
        found += data
    return bytes(found)


@pytest.mark.parametrize("make", [Echo, BufferedEcho, Paused, Careless])
@pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
def test_what_is_sent_comes_back_whole(
    loop: asyncio.AbstractEventLoop,
    certificates: Certificates,
    client: ssl.SSLContext,
    make: Make,
    version: str,
) -> None:
    client.maximum_version = ssl.TLSVersion[version]
    data = random.Random(7).randbytes(3 * MEGABYTE)
    with serving(loop, certificates, make) as (bootstrap, _):
        assert asyncio.run(_sent_and_back(bootstrap, client, data)) == data


async def _sent_and_back(bootstrap: str, client: ssl.SSLContext, data: bytes) -> bytes:
    """Both at once, which a blocking socket cannot do."""
    reader, writer = await asyncio.open_connection(*bootstrap.split(":"), ssl=client)
    writer.write(data)
    found = await asyncio.wait_for(reader.readexactly(len(data)), PATIENCE_SECONDS)
    writer.close()
    await writer.wait_closed()
    return found


@pytest.mark.parametrize("make", [Echo, Careless])
def test_a_client_that_takes_nothing_stops_the_other_side(
    loop: asyncio.AbstractEventLoop,
    certificates: Certificates,
    client: ssl.SSLContext,
    make: Callable[[list[str]], Echo],
) -> None:
    made: list[Echo] = []

    def noted(seen: list[str]) -> Echo:
        made.append(make(seen))
        return made[-1]

    with serving(loop, certificates, noted) as (bootstrap, seen), greeted(client, bootstrap) as tls:
        tls.settimeout(1.0)
        with pytest.raises(TimeoutError):
            tls.sendall(bytes(200 * MEGABYTE))
        until(lambda: "stuck" in seen, "it to be noticed")
        assert made[0].transport.get_write_buffer_size() < MEGABYTE


def test_the_end_is_said_and_nothing_after_it(
    loop: asyncio.AbstractEventLoop, certificates: Certificates, client: ssl.SSLContext
) -> None:
    with (
        serving(loop, certificates, Ending) as (bootstrap, seen),
        greeted(client, bootstrap) as tls,
    ):
        tls.sendall(b"x" * 10_000)
        assert received(tls, MEGABYTE) == b"x" * 10_000
        tls.sendall(b"who is there?")
        assert "lost" not in seen
    assert seen == ["made", "eof", "lost"]


def test_a_close_lets_out_what_was_written(
    loop: asyncio.AbstractEventLoop, certificates: Certificates, client: ssl.SSLContext
) -> None:
    with (
        serving(loop, certificates, Farewell) as (bootstrap, seen),
        greeted(client, bootstrap) as tls,
    ):
        tls.sendall(b"x" * 10_000)
        assert received(tls, MEGABYTE) == b"x" * 10_000
        until(lambda: seen == ["made", "lost"], "the connection to be closed")


@pytest.mark.parametrize("politely", [True, False])
def test_a_client_that_goes_is_noticed(
    loop: asyncio.AbstractEventLoop,
    certificates: Certificates,
    client: ssl.SSLContext,
    politely: bool,
) -> None:
    with serving(loop, certificates, Echo) as (bootstrap, seen), greeted(client, bootstrap) as tls:
        tls.sendall(b"x")
        assert tls.recv(1) == b"x"
        if politely:
            tls.unwrap().close()
        else:
            tls.close()
        until(lambda: seen == ["made", "eof", "lost"], "it to be noticed")


def test_bytes_may_come_one_by_one_and_data_with_the_last_of_the_handshake(
    loop: asyncio.AbstractEventLoop, certificates: Certificates, client: ssl.SSLContext
) -> None:
    with (
        serving(loop, certificates, Echo) as (bootstrap, _),
        connect(bootstrap) as plain,
    ):
        by_hand = ByHand(client, plain, step=1)
        by_hand.tls.write(b"hello")
        plain.sendall(by_hand.outgoing.read())  # with what ends the handshake
        assert by_hand.received(5) == b"hello"


class ByHand:
    """A client that has done its handshake, but for sending the last of it."""

    def __init__(self, client: ssl.SSLContext, plain: socket.socket, *, step: int = 65536) -> None:
        """`step`: so many bytes at a time."""
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.plain = plain
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = client.wrap_bio(self.incoming, self.outgoing, server_hostname="127.0.0.1")
        while True:
            try:
                self.tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                while data := self.outgoing.read(step):
                    plain.sendall(data)
                self.incoming.write(plain.recv(65536))

    def received(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            try:
                found += self.tls.read(count)
            except ssl.SSLWantReadError:
                data = self.plain.recv(65536)
                assert data, "it ended before"
                self.incoming.write(data)
        return bytes(found)


def test_a_client_may_ask_for_new_keys(
    loop: asyncio.AbstractEventLoop, certificates: Certificates
) -> None:
    """RFC 8446, 4.6.3; `openssl s_client` does so for a line with a K."""
    with serving(loop, certificates, Echo) as (bootstrap, _):
        program = ["openssl", "s_client", "-connect", bootstrap, "-tls1_3"]
        with subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as client:
            assert client.stdin is not None and client.stdout is not None
            for line, answer in ((b"before\n",) * 2, (b"K\n", b"KEYUPDATE\n"), (b"after\n",) * 2):
                client.stdin.write(line)
                client.stdin.flush()
                while (said := client.stdout.readline()) != answer:
                    assert said, f"it ended before {answer!r}"
            client.stdin.close()


@pytest.mark.parametrize("at_once", [True, False])
def test_a_client_that_asks_for_nothing_but_new_keys_is_sent_away(
    loop: asyncio.AbstractEventLoop,
    certificates: Certificates,
    client: ssl.SSLContext,
    tmp_path: Path,
    at_once: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each costs as much as many records of data, and is answered: what came in one read took 46 ms."""
    answered: list[int] = []
    flush = TlsSession._flush

    def counted(session: TlsSession) -> None:
        answered.append(session._outgoing.pending)
        flush(session)

    monkeypatch.setattr(TlsSession, "_flush", counted)
    with serving(loop, certificates, Echo) as (bootstrap, seen), connect(bootstrap) as plain:
        by_hand = ByHand(logged(client, tmp_path / "keys"), plain)
        sender = Sender(tmp_path / "keys")
        data = b"".join(sender.update() for _ in range(2_200))
        if not at_once:
            plain.sendall(by_hand.outgoing.read())
            until(lambda: seen == ["made"], "the handshake to be done")
        with contextlib.suppress(ConnectionError):
            plain.sendall(by_hand.outgoing.read() + data)
        until(lambda: seen == ["made", "lost"], "it to be sent away")
    assert sum(answered) < 8_000, "most was not even looked at"


@pytest.mark.parametrize("make", [Echo, BufferedEcho])
@pytest.mark.parametrize("every", [1_000, 8], ids=["alone", "with data"])
def test_padding_and_a_little_data_hide_no_records_without_any(
    loop: asyncio.AbstractEventLoop,
    certificates: Certificates,
    client: ssl.SSLContext,
    tmp_path: Path,
    make: Make,
    every: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Large records go to OpenSSL together, and one of them with data was enough for all."""
    fed: list[int] = []
    stretch = Records.stretch

    def counted(records: Records, data: memoryview) -> int:
        fed.append(stretch(records, data))
        return fed[-1]

    monkeypatch.setattr(Records, "stretch", counted)
    with serving(loop, certificates, make) as (bootstrap, seen), connect(bootstrap) as plain:
        by_hand = ByHand(logged(client, tmp_path / "keys"), plain)
        sender = Sender(tmp_path / "keys")
        parts = [by_hand.outgoing.read()]
        for number in range(1, 500):
            parts.append(sender.update(LARGE_BYTES))
            if number % every == 0:
                parts.append(sender.data(b"x", LARGE_BYTES))
        with contextlib.suppress(ConnectionError):
            plain.sendall(b"".join(parts))
        until(lambda: seen == ["made", "lost"], "it to be sent away")
    most = USELESS_MAX * 2 * LARGE_BYTES + 2 * READ_BYTES
    assert sum(fed) < most, "most was not even looked at"


@pytest.mark.parametrize("make", [Echo, BufferedEcho, Paused])
def test_padded_data_is_data(
    loop: asyncio.AbstractEventLoop,
    certificates: Certificates,
    client: ssl.SSLContext,
    tmp_path: Path,
    make: Make,
) -> None:
    with serving(loop, certificates, make) as (bootstrap, _), connect(bootstrap) as plain:
        by_hand = ByHand(logged(client, tmp_path / "keys"), plain)
        sender = Sender(tmp_path / "keys")
        sent = [sender.data(b"x" * 7_000, 9_000 - number) for number in range(500)]
        plain.sendall(by_hand.outgoing.read())
        for begin in range(0, 500, 10):
            plain.sendall(b"".join(sent[begin : begin + 10]))
            assert by_hand.received(70_000) == b"x" * 70_000


def test_new_keys_now_and_then_are_nothing_to_be_sent_away_for(
    loop: asyncio.AbstractEventLoop,
    certificates: Certificates,
    client: ssl.SSLContext,
    tmp_path: Path,
) -> None:
    with serving(loop, certificates, Echo) as (bootstrap, _), connect(bootstrap) as plain:
        by_hand = ByHand(logged(client, tmp_path / "keys"), plain)
        plain.sendall(by_hand.outgoing.read())
        sender = Sender(tmp_path / "keys")
        for _ in range(10):
            sent = [sender.update(), *(sender.data(b"x") for _ in range(20))]
            plain.sendall(b"".join(sent))
            assert by_hand.received(20) == b"x" * 20
        few = USELESS_MAX // 2
        plain.sendall(b"".join([sender.update() for _ in range(few)] + [sender.data(b"y")]))
        assert by_hand.received(1) == b"y"


def test_many_small_records_take_many_turns_of_the_loop(
    loop: asyncio.AbstractEventLoop,
    certificates: Certificates,
    client: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """64 KB of records with one byte each are almost three thousand."""
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    turn, counts = 0, Counter[int]()

    class Counted(Echo):
        def answer(self, data: bytes) -> None:
            counts[turn] += len(data)
            super().answer(data)

    async def count_turns() -> None:
        nonlocal turn
        while counts.total() < 2_700:
            turn += 1
            await asyncio.sleep(0)

    with serving(loop, certificates, Counted) as (bootstrap, _), connect(bootstrap) as plain:
        by_hand = ByHand(client, plain)
        counting = asyncio.run_coroutine_threadsafe(count_turns(), loop)
        for _ in range(2_700):
            by_hand.tls.write(b"x")
        data = by_hand.outgoing.read()
        plain.sendall(data[:30_000])  # what is behind comes while the first waits
        plain.sendall(data[30_000:])
        assert by_hand.received(2_700) == b"x" * 2_700
        counting.result(PATIENCE_SECONDS)
    assert max(counts.values()) <= 2 * FEW


def test_whoever_waits_for_a_turn_is_not_read_until_it_comes(
    loop: asyncio.AbstractEventLoop,
    certificates: Certificates,
    client: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else all that it sends is kept, before anybody knows who it is."""
    monkeypatch.setattr(turns, "TURN_S", 0.0)
    waiting: list[bool] = []
    updated = TlsSession.buffer_updated

    def noted(session: TlsSession, count: int) -> None:
        waiting.append(session.is_waiting)
        updated(session, count)

    monkeypatch.setattr(TlsSession, "buffer_updated", noted)
    made: list[Quiet] = []

    def make(seen: list[str]) -> Quiet:
        made.append(Quiet(seen))
        return made[-1]

    with serving(loop, certificates, make) as (bootstrap, _), contextlib.ExitStack() as stack:
        sent: list[tuple[socket.socket, bytes]] = []
        for _ in range(4):  # one of them in each turn
            by_hand = ByHand(client, stack.enter_context(connect(bootstrap)))
            for _ in range(5_000):
                by_hand.tls.write(b"x")
            sent.append((by_hand.plain, by_hand.outgoing.read()))  # with what ends the handshake

        async def send() -> None:
            for plain, data in sent:
                plain.sendall(data[:100_000])  # more than a read finds

        asyncio.run_coroutine_threadsafe(send(), loop).result(PATIENCE_SECONDS)
        for plain, data in sent:
            plain.sendall(data[100_000:])
        until(lambda: [each.taken for each in made] == [5_000] * 4, "all of it to be taken")
    assert not any(waiting)


def test_damaged_bytes_end_the_connection(
    loop: asyncio.AbstractEventLoop, certificates: Certificates, client: ssl.SSLContext
) -> None:
    with (
        serving(loop, certificates, Echo) as (bootstrap, seen),
        greeted(client, bootstrap) as tls,
    ):
        tls.sendall(b"hello")
        assert tls.recv(5) == b"hello"
        with socket.socket(fileno=tls.detach()) as plain:
            plain.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
            until(lambda: seen == ["made", "lost"], "it to be noticed")


def test_what_is_known_of_the_connection_is_told(
    loop: asyncio.AbstractEventLoop, certificates: Certificates, client: ssl.SSLContext
) -> None:
    made: list[Echo] = []

    def make(seen: list[str]) -> Echo:
        made.append(Echo(seen))
        return made[-1]

    with serving(loop, certificates, make) as (bootstrap, _), greeted(client, bootstrap) as tls:
        tls.sendall(b"x")
        assert tls.recv(1) == b"x"
        transport = made[0].transport
        assert transport.get_extra_info("peername") == tls.getsockname()
        assert transport.get_extra_info("cipher") == tls.cipher()
        assert isinstance(transport.get_extra_info("sslcontext"), ssl.SSLContext)
        assert transport.get_extra_info("nothing", "else") == "else"
        assert transport.get_protocol() is made[0]
