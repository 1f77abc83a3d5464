"""Opening listeners: what is refused at start, and certificates that change while it runs."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from pathlib import Path

import pytest

from headwater import Broker
from headwater.broker.security.listeners import BadListener
from headwater.testing import broker
from tests.compat.waiting import until
from tests.compat.wire import connected
from tests.security.servers import Certificates


async def _start(data: Path, listen: str | None, **settings: str) -> None:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    async with Broker(data, listen, named):
        pass


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0"])
def test_an_open_address_without_a_login_is_refused(tmp_path: Path, listen: str):
    with pytest.raises(BadListener, match="would let anybody") as refusal:
        asyncio.run(_start(tmp_path, listen))
    assert "--insecure" in str(refusal.value.hint)


def test_tls_alone_is_no_login(tmp_path: Path, certificates: Certificates):
    files = certificates.settings() | {"listeners": "SSL://0.0.0.0:0"}
    named = {name.replace(".", "_"): value for name, value in files.items()}
    with pytest.raises(BadListener, match="would let anybody"):
        asyncio.run(_start(tmp_path, None, **named))
    asyncio.run(_start(tmp_path, None, **named, ssl_client_auth="required"))


def test_it_is_done_where_somebody_says_so_and_clients_are_told_a_real_address(tmp_path: Path):
    settings = {"headwater.insecure": "true"}
    with (
        broker(tmp_path, settings, listen="0.0.0.0:0") as server,
        connected(f"127.0.0.1:{server.port}") as wire,
    ):
        assert wire.ask("metadata", 9, topics=[]).brokers[0].host == "127.0.0.1"


def test_a_login_makes_an_open_address_acceptable(tmp_path: Path):
    asyncio.run(_start(tmp_path, None, listeners="SASL_PLAINTEXT://0.0.0.0:0"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "has no certificate"),
        ("missing.pem", "No such file"),
        ("empty.pem", "cannot be used as key and certificate"),
        ("store.jks", "is a Java key store"),
        ("store.p12", "looks like PKCS12"),
    ],
)
def test_a_key_store_that_will_not_do_is_refused(tmp_path: Path, text, sentence):
    (tmp_path / "empty.pem").write_text("")
    (tmp_path / "store.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\x02")
    (tmp_path / "store.p12").write_bytes(b"\x30\x82\x0a\x00\x02\x01\x03")
    settings = {"listeners": "SSL://127.0.0.1:0"}
    if text is not None:
        settings["ssl_keystore_location"] = str(tmp_path / text)
    with pytest.raises(BadListener, match=sentence):
        asyncio.run(_start(tmp_path / "data", None, **settings))


def test_an_encrypted_key_needs_its_password(tmp_path: Path, certificates: Certificates):
    locked = certificates.authority.issue("locked", hosts=["127.0.0.1"], password="open-sesame")
    settings = {"listeners": "SSL://127.0.0.1:0", "ssl_keystore_location": str(locked.bundle)}
    with pytest.raises(BadListener, match=r"ssl\.key\.password is not set"):
        asyncio.run(_start(tmp_path, None, **settings))
    asyncio.run(_start(tmp_path, None, **settings, ssl_key_password="open-sesame"))


def test_key_and_chain_may_be_text_in_one_line(tmp_path: Path, certificates: Certificates):
    key, chain = (
        path.read_text().replace("\n", "\\n")
        for path in (certificates.server.key, certificates.server.certificate)
    )
    asyncio.run(
        _start(
            tmp_path,
            None,
            listeners="SSL://127.0.0.1:0",
            ssl_keystore_key=key,
            ssl_keystore_certificate_chain=chain,
        )
    )


def test_new_certificates_are_used_without_a_restart(tmp_path: Path, certificates: Certificates):
    file = tmp_path / "server.pem"
    shutil.copy(certificates.server.bundle, file)
    settings = {
        "listeners": "SSL://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "ssl.keystore.location": str(file),
    }
    with broker(tmp_path / "data", settings, listen=None) as server:
        before = _shown(server.bootstrap)
        loop = server.socket_server._acceptors[0]._loop
        file.write_text("nonsense")
        loop.call_soon_threadsafe(server.socket_server.reload)  # what SIGHUP does
        assert _shown(server.bootstrap) == before
        fresh = certificates.authority.issue("fresh", hosts=["127.0.0.1"])
        shutil.copy(fresh.bundle, file)
        loop.call_soon_threadsafe(server.socket_server.reload)
        until(lambda: _shown(server.bootstrap) != before, "the new certificate to be shown")


@pytest.mark.parametrize("group", ["ffdhe8192", "ffdhe2048", "secp521r1", "X448"])
def test_a_stranger_cannot_choose_a_handshake_that_is_dear(
    tmp_path: Path, certificates: Certificates, group: str
):
    settings = certificates.settings() | {"listeners": "SSL://127.0.0.1:0"}
    with broker(tmp_path, settings, listen=None) as server:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client.load_verify_locations(certificates.authority.certificate)
        with _greeted(client, server.bootstrap) as usual:
            assert usual.version() == "TLSv1.3"
        client.set_ecdh_curve(group)
        with pytest.raises((ssl.SSLError, OSError)), _greeted(client, server.bootstrap):
            pass


def _greeted(client: ssl.SSLContext, bootstrap: str) -> ssl.SSLSocket:
    host, _, port = bootstrap.rpartition(":")
    plain = socket.create_connection((host, int(port)), timeout=60)
    try:
        return client.wrap_socket(plain, server_hostname=host)
    except OSError:
        plain.close()
        raise


def _shown(bootstrap: str) -> bytes | None:
    host, _, port = bootstrap.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain) as tls:
        return tls.getpeercert(binary_form=True)
