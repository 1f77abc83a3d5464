"""The edges and the console behind TLS, with the broker's settings: who gets in, and a new certificate."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect as websocket

from headwater.broker.security.admission import Place
from headwater.errors import HeadwaterError
from headwater.project import http_protocol, http_server, tls, websocket_protocol
from headwater.project.hello import page_answers
from headwater.project.http_server import Server
from headwater.project.tls import Certificates, complaint, settings_of
from tests.compat.waiting import until
from tests.security import servers
from tests.security.tls_clients import connect, first_message, is_closed


async def page(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["scheme"].encode()})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.send", "text": (await receive())["text"]})
    else:
        for said in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{said}.complete"})


@contextmanager
def served(certificates: Certificates | None, per_address: int = 0) -> Iterator[str]:
    """A page of uvicorn's, as all three servers start it."""
    config = http_server.config(page, slow_s=30, stop_s=3, sockets=websocket_protocol.PAGES)
    server = Server(config, certificates, per_address)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def trusting(authority: Path, shown: Path | None = None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=authority)
    if shown is not None:
        made.load_cert_chain(shown)
    return made


def test_a_page_shows_the_brokers_certificate_and_a_new_one_without_a_restart(
    certificates: servers.Certificates, tmp_path: Path
):
    file = tmp_path / "server.pem"
    shutil.copy(certificates.server.bundle, file)
    given = settings_of({"ssl.keystore.location": str(file)}, certificates.settings())
    assert given is not None
    made = Certificates(given, "edges")
    ours, theirs = (
        a.certificate for a in (certificates.authority, certificates.strangers_authority)
    )
    with served(made) as at:
        assert httpx.get(f"https://{at}/", verify=trusting(ours)).text == "https"
        assert page_answers(at, 30.0, is_secure=True) and not page_answers(at, 30.0)
        assert not made.renew()
        file.write_text("no certificate")
        assert not made.renew()  # and the old one stays
        assert httpx.get(f"https://{at}/", verify=trusting(ours)).status_code == 200
        shutil.copy(certificates.strangers_authority.issue("new", hosts=["127.0.0.1"]).bundle, file)
        assert made.renew()
        assert httpx.get(f"https://{at}/", verify=trusting(theirs)).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"https://{at}/", verify=trusting(ours))


def test_a_websocket_works_behind_tls(certificates: servers.Certificates):
    given = settings_of(True, certificates.settings())
    assert given is not None
    ours = trusting(certificates.authority.certificate)
    with (
        served(Certificates(given, "console")) as at,
        websocket(f"wss://{at}/", ssl=ours, open_timeout=60, close_timeout=60) as connection,
    ):
        connection.send("x" * 200_000)
        assert connection.recv(60) == "x" * 200_000


ASKS = b"Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
KEYED = ASKS + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(
            b"GET / HTTP/1.1\r\n" + KEYED + b"Content-Length: 5\r\n\r\nhello", id="a body"
        ),
        pytest.param(
            b"GET / HTTP/1.1\r\n" + KEYED + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            id="a body in chunks",
        ),
        pytest.param(b"GET / HTTP/1.1\r\n" + KEYED + b"a: b\r\n" * 200 + b"\r\n", id="many lines"),
        pytest.param(
            b"GET / HTTP/1.1\r\n" + KEYED + b"a: " + b"b" * 9_000 + b"\r\n\r\n", id="a long line"
        ),
        pytest.param(
            b"GET /" + b"b" * 9_000 + b" HTTP/1.1\r\n" + KEYED + b"\r\n", id="a long path"
        ),
        pytest.param(b"GET /\xff HTTP/1.1\r\n" + KEYED + b"\r\n", id="a path that is no text"),
        pytest.param(
            b"GET / HTTP/1.1\r\n" + KEYED + b"a: \xff\r\n\r\n", id="a line that is no text"
        ),
        pytest.param(b"GET / HTTP/1.0\r\n" + KEYED + b"\r\n", id="an old version"),
        pytest.param(b"POST / HTTP/1.1\r\n" + KEYED + b"\r\n", id="not GET"),
        pytest.param(b"GET / HTTP/1.1\r\n" + ASKS + b"\r\n", id="no key"),
    ],
)
def test_a_websocket_is_opened_or_refused_at_once_and_no_stranger_is_waited_for(head: bytes):
    with served(None) as at, socket.create_connection(_place(at), timeout=60) as client:
        client.sendall(head)
        said = client.recv(4096)
        assert b" 101 " in said or is_closed(client), "whatever it asks for, it hears of it"


def _place(at: str) -> tuple[str, int]:
    host, _, port = at.rpartition(":")
    return host, int(port)


def test_clients_in_the_middle_of_a_handshake_count_and_are_closed_by_a_stop(
    certificates: servers.Certificates, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(http_protocol, "most_connections", lambda: 5)
    given = settings_of(True, certificates.settings())
    assert given is not None
    ours = trusting(certificates.authority.certificate)
    with ExitStack() as stack:
        with served(Certificates(given, "edges")) as at:
            half = [stack.enter_context(connect(at)) for _ in range(5)]
            for each in half[:3]:
                each.sendall(first_message(ours))
            assert is_closed(stack.enter_context(connect(at))), "there is no place for a sixth"
            half.pop().close()
            until(lambda: _answers(at, ours), "the place of one that went")
        assert all(map(is_closed, half))


@pytest.mark.parametrize("is_secure", [False, True])
def test_one_address_may_have_so_many_connections_and_others_come_in(
    certificates: servers.Certificates, is_secure: bool
):
    given = settings_of(True, certificates.settings())
    assert given is not None
    ours = trusting(certificates.authority.certificate)
    scheme, context = ("s", ours) if is_secure else ("", None)
    with served(Certificates(given, "edges") if is_secure else None, 3) as at, ExitStack() as stack:
        talking = f"ws{scheme}://{at}/"
        told = stack.enter_context(
            websocket(talking, ssl=context, open_timeout=60, close_timeout=60)
        )
        half = [stack.enter_context(connect(at)) for _ in range(2)]
        until(lambda: is_closed(stack.enter_context(connect(at))), "a fourth to be refused")
        elsewhere = httpx.HTTPTransport(verify=ours, local_address="127.0.0.2")
        with httpx.Client(transport=elsewhere) as other:
            assert other.get(f"http{scheme}://{at}/").status_code == 200
        told.send("x")
        assert told.recv(60) == "x"
        told.close()
        until(lambda: _answers(at, ours, scheme), "the place of the WebSocket")
        for each in half:
            each.close()
        until(lambda: _answers(at, ours, scheme), "their places")


def test_all_of_an_ipv6_network_counts_as_one_address():
    """A client has 2^64 of them: counted one by one they would be no bound."""
    config = http_server.config(page, slow_s=30, stop_s=3)
    admission = Server(config, None, 2).admission
    first = admission.enter("2001:db8:1::1")
    assert isinstance(first, Place) and first.host == "2001:db8:1::1"
    assert isinstance(admission.enter("2001:db8:1::ffff:2"), Place)
    assert admission.enter("2001:db8:1::3") == "connections_per_address are open"
    for elsewhere in ("2001:db8:1:1::1", "192.0.2.1", "192.0.2.2"):
        assert isinstance(admission.enter(elsewhere), Place)
    first.leave()
    assert isinstance(admission.enter("2001:db8:1::4"), Place)


def _answers(at: str, client: ssl.SSLContext, scheme: str = "s") -> bool:
    try:
        return httpx.get(f"http{scheme}://{at}/", verify=client).status_code == 200
    except httpx.TransportError:
        return False


def test_with_client_auth_only_certificates_of_our_own_get_in(certificates: servers.Certificates):
    given = settings_of({"ssl.client.auth": "required"}, certificates.settings())
    assert given is not None
    ours = certificates.authority.certificate
    with served(Certificates(given, "console")) as at:
        shown = trusting(ours, certificates.client.bundle)
        assert httpx.get(f"https://{at}/", verify=shown).status_code == 200
        for refused in (None, certificates.stranger.bundle, certificates.expired.bundle):
            with pytest.raises(httpx.TransportError):
                httpx.get(f"https://{at}/", verify=trusting(ours, refused))
        assert page_answers(at, 30.0, is_secure=True)  # it is there, and wants to know who asks


def test_what_is_written_under_tls_is_checked_before_anything_starts(tmp_path: Path):
    assert settings_of(False, {"ssl.keystore.location": "x"}) is None
    assert settings_of(True, {"ssl.keystore.location": "x", "log.dirs": "y"}) == {
        "ssl.keystore.location": "x"
    }
    assert complaint(True) is None and complaint({"ssl.client.auth": "required"}) is None
    assert "neither true nor a section" in (complaint("yes") or "")
    assert "no setting as in" in (complaint({"port": "17"}) or "")
    with pytest.raises(HeadwaterError, match="has no certificate"):
        tls.Certificates({}, "edges")
