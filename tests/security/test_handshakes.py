"""Clients in the middle of a TLS handshake: they count, and none of them waits for a stranger's."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.broker.security import handshakes
from headwater.broker.security import turns as tls_turns
from headwater.broker.security.tls_session import TlsSession
from tests.broker.quotas.test_enforcement import set_quota
from tests.broker.serving import Serving, serving
from tests.compat.waiting import until
from tests.compat.wire import Wire
from tests.security.servers import Certificates
from tests.security.tls_clients import LOOPS, connect, first_message, greeted, is_closed, trusting

REQUEST = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
"""ApiVersions, version 0."""


@pytest.fixture(params=LOOPS)
def loop_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@contextlib.contextmanager
def broker_with(
    certificates: Certificates, data: Path, loop_name: str, **more: object
) -> Iterator[Serving]:
    settings = {
        **certificates.settings(),
        "listeners": "SSL://127.0.0.1:0",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    with serving(data, settings, listen=None, new_loop=LOOPS[loop_name]) as running:
        yield running


@pytest.fixture
def client(certificates: Certificates) -> ssl.SSLContext:
    return trusting(certificates.authority.certificate)


def under_way(broker: Serving) -> int:
    return broker.call(lambda: len(broker.broker.socket_server.handshakes))


def places_taken(broker: Serving) -> int:
    admission = broker.broker.socket_server.admission
    assert admission is not None
    return admission.taken


def is_served(client: ssl.SSLContext, bootstrap: str, source: str = "127.0.0.1") -> bool:
    with greeted(client, bootstrap, source) as tls:
        tls.sendall(REQUEST)
        return len(tls.recv(4)) == 4


@pytest.mark.parametrize("limit", ["max_connections", "max_connections_per_ip"])
@pytest.mark.parametrize("begin", [True, False])
def test_who_is_in_the_middle_of_a_handshake_counts(
    certificates: Certificates,
    client: ssl.SSLContext,
    tmp_path: Path,
    loop_name: str,
    limit: str,
    begin: bool,
):
    with (
        broker_with(certificates, tmp_path, loop_name, **{limit: 5}) as broker,
        contextlib.ExitStack() as stack,
    ):
        half = [stack.enter_context(connect(broker.bootstrap)) for _ in range(5)]
        for each in half if begin else ():
            each.sendall(first_message(client))
        until(lambda: under_way(broker) == 5, "all of them to be accepted")
        for _ in range(3):
            assert is_closed(stack.enter_context(connect(broker.bootstrap)))
        assert under_way(broker) == 5, "nothing was made for those who were sent away"
        if limit == "max_connections_per_ip":
            assert is_served(client, broker.bootstrap, "127.0.0.2")
        half[0].close()
        until(lambda: under_way(broker) == 4, "its place to be free")
        assert is_served(client, broker.bootstrap)


def test_the_quota_of_new_connections_is_held_before_the_handshake(
    certificates: Certificates, client: ssl.SSLContext, tmp_path: Path, loop_name: str
):
    with broker_with(certificates, tmp_path, loop_name) as broker:
        with contextlib.closing(Wire(broker.bootstrap, tls=client)) as wire:
            set_quota(wire, {"ip": "127.0.0.1"}, connection_creation_rate=1.0)
        admission = broker.broker.socket_server.admission
        assert admission is not None
        with contextlib.ExitStack() as stack:
            late = [stack.enter_context(connect(broker.bootstrap)) for _ in range(20)]
            until(lambda: admission.refused >= 10, "the quota to be asked")
            assert under_way(broker) + admission.refused <= 20, "those have no handshake"
            assert is_closed(late[-1]), "after a while"


def test_who_does_not_go_on_is_dropped(
    certificates: Certificates,
    client: ssl.SSLContext,
    tmp_path: Path,
    loop_name: str,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(handshakes, "HANDSHAKE_SECONDS", 0.2)
    with (
        broker_with(certificates, tmp_path, loop_name) as broker,
        connect(broker.bootstrap) as silent,
        connect(broker.bootstrap) as begun,
    ):
        begun.sendall(first_message(client))
        assert is_closed(silent)
        assert is_closed(begun)
        until(lambda: places_taken(broker) == 0, "their places to be free")


def test_nobody_in_the_middle_of_a_handshake_is_left_behind_by_a_stop(
    certificates: Certificates, client: ssl.SSLContext, tmp_path: Path, loop_name: str
):
    with contextlib.ExitStack() as stack:
        with broker_with(certificates, tmp_path, loop_name) as broker:
            half = [stack.enter_context(connect(broker.bootstrap)) for _ in range(4)]
            for each in half[:2]:
                each.sendall(first_message(client))
            until(lambda: under_way(broker) == 4, "all of them to be accepted")
        assert all(map(is_closed, half))


def test_a_turn_of_the_loop_takes_few_steps_and_addresses_take_turns(
    certificates: Certificates,
    client: ssl.SSLContext,
    tmp_path: Path,
    loop_name: str,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(tls_turns, "TURN_S", 0.0)  # one step, then the next turn
    steps: list[tuple[int, str]] = []
    turn = 0
    take = TlsSession.step

    def counted(session: TlsSession) -> str | None:
        steps.append((turn, session.host))
        return take(session)

    monkeypatch.setattr(TlsSession, "step", counted)

    async def count_turns() -> None:
        nonlocal turn
        while len(steps) < 41:
            turn += 1
            await asyncio.sleep(0)

    with (
        broker_with(certificates, tmp_path, loop_name) as broker,
        contextlib.ExitStack() as stack,
    ):
        many = [stack.enter_context(connect(broker.bootstrap)) for _ in range(40)]
        other = stack.enter_context(connect(broker.bootstrap, "127.0.0.2"))
        until(lambda: under_way(broker) == 41, "all of them to be accepted")
        counting = broker.begin(count_turns())
        broker.call(lambda: _send_all(many, other, first_message(client)))
        counting.result(60)
    turns = [number for number, _ in steps]
    assert len(set(turns)) >= len(turns) - 1, "and no more than one in each"
    place = [host for _, host in steps].index("127.0.0.2")
    assert place < 10, "it is not behind all of the others"


def _send_all(many: list[socket.socket], other: socket.socket, message: bytes) -> None:
    """In one turn of the broker's loop, which finds them all in the next."""
    for each in (*many, other):
        each.sendall(message)


def test_where_all_places_are_taken_those_that_do_not_go_on_make_room(
    certificates: Certificates,
    client: ssl.SSLContext,
    tmp_path: Path,
    loop_name: str,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(handshakes, "HALF_MAX", 8)
    monkeypatch.setattr(handshakes, "GONE_AT_ONCE", 1)
    monkeypatch.setattr(handshakes, "PRESSED_SECONDS", 0.1)
    with (
        broker_with(certificates, tmp_path, loop_name) as broker,
        contextlib.ExitStack() as stack,
    ):
        few = [stack.enter_context(connect(broker.bootstrap, "127.0.0.3")) for _ in range(2)]
        many = [stack.enter_context(connect(broker.bootstrap)) for _ in range(30)]
        for each in many:
            with contextlib.suppress(ConnectionError):
                each.sendall(first_message(client))
        assert is_served(client, broker.bootstrap, "127.0.0.2")
        until(
            lambda: broker.broker.socket_server.handshakes.failed >= 24, "all to be accepted once"
        )
        assert under_way(broker) <= 8
        for each in few:  # the address with the most of them loses its own
            each.setblocking(False)
            with pytest.raises(BlockingIOError):
                each.recv(1)


def test_a_flood_at_one_listener_closes_no_other(
    certificates: Certificates,
    client: ssl.SSLContext,
    tmp_path: Path,
    loop_name: str,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(handshakes, "HALF_MAX", 8)
    monkeypatch.setattr(handshakes, "PRESSED_SECONDS", 600.0)  # nobody makes room
    both = {
        "listeners": "SSL://127.0.0.1:0,INNER://127.0.0.1:0",
        "listener.security.protocol.map": "SSL:SSL,INNER:SSL",
    }
    with (
        broker_with(certificates, tmp_path, loop_name, **both) as broker,
        contextlib.ExitStack() as stack,
    ):
        flooded, other = broker.broker.socket_server.listeners
        for _ in range(20):
            stack.enter_context(connect(flooded.bootstrap))
        until(lambda: under_way(broker) == 4, "its half of the places to be taken")
        assert is_served(client, other.bootstrap)
        assert under_way(broker) == 4


def test_a_failed_handshake_is_told_to_the_client_and_counted(
    certificates: Certificates, tmp_path: Path, loop_name: str
):
    with broker_with(certificates, tmp_path, loop_name) as broker:
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.set_ecdh_curve("secp521r1")
        with connect(broker.bootstrap) as plain, pytest.raises(ssl.SSLError, match=r"(?i)alert"):
            old.wrap_socket(plain)
        with connect(broker.bootstrap) as nonsense:
            nonsense.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert is_closed(nonsense)
        until(lambda: under_way(broker) == 0, "both to be gone")
        assert broker.broker.socket_server.handshakes.failed == 2
