"""Which addresses are called: nothing of the inner network however it is written, unless that is allowed."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from headwater.edges.webhooks.addresses import (
    AddressRefused,
    NameUnknown,
    refusal,
    resolved,
    url_complaint,
)
from headwater.edges.webhooks.poster import Connections

INNER = ["127.0.0.1", "10.0.0.1", "172.16.9.9", "192.168.1.1", "100.64.0.1", "::1", "fc00::1"]
INNER += ["::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "fec0::1"]
INNER += ["192.0.2.1", "198.18.0.1", "2001:db8::1"]
NEVER = ["169.254.169.254", "fe80::1", "fe80::1%eth0", "0.0.0.0", "::", "224.0.0.1", "ff02::1"]
NEVER += ["255.255.255.255", "240.0.0.1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"]
NEVER += ["168.63.129.16", "fd00:ec2::254", "::169.254.169.254", "64:ff9b:1:7f00:0:100::"]
INNER += ["::127.0.0.1", "::10.0.0.1"]
OUTER = ["8.8.8.8", "1.1.1.1", "2606:4700::1111"]


@pytest.mark.parametrize("address", INNER)
def test_an_inner_address_is_called_only_where_that_is_allowed(address: str):
    assert "allow_private is not set" in (refusal(address, allow_private=False) or "")
    assert refusal(address, allow_private=True) is None


@pytest.mark.parametrize("address", NEVER)
def test_some_addresses_are_never_called(address: str):
    assert refusal(address, allow_private=False)
    assert "never called" in (refusal(address, allow_private=True) or "")


@pytest.mark.parametrize("address", OUTER)
def test_an_address_on_the_internet_is_called(address: str):
    assert refusal(address, allow_private=False) is None


@pytest.mark.parametrize("name", ["localhost", "127.1", "0x7f000001", "2130706433"])
async def test_whatever_a_name_is_written_like_its_addresses_count(name: str):
    with pytest.raises(AddressRefused, match="loopback"):
        await resolved(name, 80, allow_private=False)
    assert "127.0.0.1" in await resolved(name, 80, allow_private=True)


async def test_one_inner_address_among_others_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch):
    def answer(*words: Any, **more: Any) -> list[Any]:
        return [(2, 1, 6, "", (each, 443)) for each in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1 is a private"):
        await resolved("both.example", 443, allow_private=False)


async def test_a_name_without_an_address_is_told():
    with pytest.raises(NameUnknown, match="has no address"):
        await resolved("n" * 64 + ".example", 443, allow_private=False)


async def test_the_connection_goes_to_the_address_that_was_looked_at(
    monkeypatch: pytest.MonkeyPatch,
):
    """A name that means one thing at first and another then: it is asked for once."""
    asked = []

    def answer(host: str, *words: Any, **more: Any) -> list[Any]:
        asked.append(host)
        return [(2, 1, 6, "", ("127.0.0.1", 0))]

    def serve(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        real = socket.getaddrinfo
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda host, *w, **m: answer(host) if host == "moves.example" else real(host, *w, **m),
        )
        port = server.getsockname()[1]
        connections = Connections(f"http://moves.example:{port}/x", allow_private=True)
        said = await connections.post([("user-agent", "test")], b"hello")
        connections.close()
        thread.join()
    assert said.status == 204
    assert asked == ["moves.example"]


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("https://shop.example/hooks", None),
        ("https://shop.example:8443/hooks?x=1", None),
        ("http://shop.example/", "http:// is for inner networks"),
        ("https://10.0.0.1/", "private address"),
        ("https://[::1]/", "loopback address"),
        ("https://user:pass@shop.example/", "do not belong into the address"),
        ("https://shop.example/#there", "fragment"),
        ("ftp://shop.example/", "is no https://HOST/PATH"),
        ("https:///path", "is no https://HOST/PATH"),
        ("https://[::1/", "is no address"),
        ("https://shop.example:99999/", "is no address"),
    ],
)
def test_where_it_goes_is_checked_when_the_file_is_read(url: str, complaint: str | None):
    said = url_complaint(url, allow_private=False)
    assert said is None if complaint is None else complaint in (said or "")
