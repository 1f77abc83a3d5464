"""Questions to an issuer that hangs, drips or has many addresses: bounded as a whole, on real sockets."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.oidc import web
from headwater.oidc.errors import IssuerUnreachable
from headwater.testing.certificates import Authority


@contextlib.contextmanager
def _listening() -> Iterator[socket.socket]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        yield server


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """An address at which a connection is never made: the queue of those to be accepted is full."""
    with _listening() as server, contextlib.ExitStack() as stack:
        for _ in range(3):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                waiting.connect(server.getsockname())
        yield server.getsockname()


def test_an_address_that_is_silent_leaves_time_for_the_next(silent):
    with _listening() as server:
        places = [web.Place(socket.AF_INET, each) for each in (silent, server.getsockname())]
        with web.connected(places, time.monotonic() + 2) as found:
            assert found.getpeername() == server.getsockname()


def test_silent_addresses_are_given_up_together(silent):
    with pytest.raises(TimeoutError):
        web.connected([web.Place(socket.AF_INET, silent)] * 50, time.monotonic() + 0.3)
    with pytest.raises(IssuerUnreachable, match=r"longer than 0\.3 s"):
        web.fetch(f"http://127.0.0.1:{silent[1]}/keys", seconds=0.3)


def test_a_look_up_that_hangs_is_not_waited_for():
    over = threading.Event()
    try:
        with pytest.raises(TimeoutError):
            web.within(0.05, over.wait)
    finally:
        over.set()
    assert web.within(30, lambda: 7) == 7
    with pytest.raises(ValueError, match="literal"):
        web.within(30, lambda: int("x"))


def test_a_name_that_cannot_be_looked_up_is_the_issuers_fault():
    with pytest.raises(IssuerUnreachable, match="no answer"):
        web.fetch(f"https://{'a' * 70}.example/keys", seconds=30)


def test_a_handshake_that_drips_is_cut_off():
    """Each byte comes in time, so that no single read takes long; TLS waits for 16 KiB of them."""
    over = threading.Event()

    def drip(server: socket.socket) -> None:
        with server.accept()[0] as client, contextlib.suppress(OSError):
            client.sendall(b"\x16\x03\x03\x40\x00")  # a record of a handshake begins
            while not over.wait(0.05):
                client.sendall(b"\0")

    with _listening() as server:
        thread = threading.Thread(target=drip, args=(server,), daemon=True)
        thread.start()
        try:
            with pytest.raises(IssuerUnreachable, match=r"longer than 0\.3 s"):
                web.fetch(f"https://127.0.0.1:{server.getsockname()[1]}/keys", seconds=0.3)
        finally:
            over.set()
            thread.join()


@contextlib.contextmanager
def _answering(bundle: Path) -> Iterator[int]:
    """https on loopback, with what lies in that file."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(bundle)
    with _listening() as plain, context.wrap_socket(plain, server_side=True) as server:

        def answer() -> None:
            with contextlib.suppress(OSError), server.accept()[0] as client:
                client.recv(65_536)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join()


def test_https_is_spoken_with_whom_an_authority_vouches_for_by_that_name(tmp_path, monkeypatch):
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    good = authority.issue("server", hosts=["localhost", "127.0.0.1"]).bundle
    for host in ("localhost", "127.0.0.1"):
        with _answering(good) as port:
            assert web.fetch(f"https://{host}:{port}/keys") == web.Answer(200, b"{}")
    other = authority.issue("other", hosts=["other.example"]).bundle
    refused = pytest.raises(IssuerUnreachable, match="certificate")
    with _answering(other) as port, refused:
        web.fetch(f"https://127.0.0.1:{port}/keys")
    monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path / "strangers").certificate))
    refused = pytest.raises(IssuerUnreachable, match="certificate")
    with _answering(good) as port, refused:
        web.fetch(f"https://127.0.0.1:{port}/keys")


def test_an_address_that_no_request_can_be_made_of_is_the_issuers_fault(idp):
    with pytest.raises(IssuerUnreachable, match="no answer"):
        web.fetch(f"{idp.url}/kéys\ud800")
