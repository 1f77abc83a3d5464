"""The edges and the console behind TLS, with the broker's settings: who gets in, and a new certificate."""

from __future__ import annotations

import shutil
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

from headwater.errors import HeadwaterError
from headwater.project import tls
from headwater.project.hello import page_answers
from headwater.project.http_server import Server
from headwater.project.tls import Certificates, complaint, settings_of
from tests.security import servers


async def page(scope, receive, send) -> None:  # type: ignore[no-untyped-def]
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["scheme"].encode()})


@contextmanager
def served(certificates: Certificates) -> Iterator[str]:
    """A page of uvicorn's, as both servers start it."""
    config = uvicorn.Config(page, log_config=None, lifespan="off")
    server = Server(config, certificates)
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
