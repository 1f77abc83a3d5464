"""Which addresses are called: nothing of the inner network however it is written, unless that is allowed."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from headwater.edges.webhooks.addresses import (
    AddressRefused,
    LookUps,
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
INNER += ["192.0.0.8", "192.0.0.170", "192.88.99.1", "192.31.196.1", "192.175.48.6"]
INNER += ["198.51.100.7", "203.0.113.9", "100.127.255.254", "192.52.193.1", "64:ff9b::c000:aa"]
INNER += ["2001:0:808:808::f7f7:f7f7", "2001:2::1", "2001:20::1", "2002:808:808::1"]
INNER += ["3fff::1", "5f00::1", "100::1", "100:0:0:1::1", "2620:4f:8000::1", "4000::1", "::8.8.8.8"]
INNER += ["::ffff:192.0.0.8", "::ffff:8.8.8.8"]
NEVER += ["0.0.0.0", "::ffff:0.0.0.0", "2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1"]
NEVER += ["fd20:ce::254", "fd00:ec2::23", "fd00:c1::a9fe:a9fe", "fd00:42::42", "192.0.0.192"]
NEVER += ["fd00:a9fe:a9fe::1", "fd00:100::100:200", "64:ff9b::c000:c0", "::ffff:0:a9fe:a9fe"]
NEVER += ["fd12::5efe:169.254.169.254", "2606:4700::200:5efe:a9fe:a9fe"]
OUTER = ["64:ff9b::808:808", "8.8.8.8", "1.1.1.1", "2606:4700::1111"]


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
        await resolved(name, allow_private=False)
    assert "127.0.0.1" in await resolved(name, allow_private=True)


async def test_one_inner_address_among_others_is_enough_to_refuse(monkeypatch: pytest.MonkeyPatch):
    def answer(*words: Any, **more: Any) -> list[Any]:
        return [(2, 1, 6, "", (each, 443)) for each in ("8.8.8.8", "10.0.0.1")]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    with pytest.raises(AddressRefused, match=r"10\.0\.0\.1 is a private"):
        await resolved("both.example", allow_private=False)


async def test_a_name_without_an_address_is_told():
    with pytest.raises(NameUnknown, match="has no address"):
        await resolved("n" * 64 + ".example", allow_private=False)


async def test_names_whose_servers_never_answer_hold_up_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
):
    answers, asked = threading.Event(), []

    def hang(host: str, *words: Any, **more: Any) -> list[Any]:
        asked.append(host)
        answers.wait(60)
        return [(2, 1, 6, "", ("8.8.8.8", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    names = [f"slow{number % 40}.example" for number in range(80)]
    try:
        many = [asyncio.create_task(resolved(name, allow_private=False)) for name in names]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "free"), 30) == "free"
        many[0].cancel()
        answers.set()
        found = await asyncio.gather(*many, return_exceptions=True)
    finally:
        answers.set()
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == [["8.8.8.8"]] * 79, "also who shared a look-up with the one that left"
    assert sorted(asked) == sorted(set(names)), "one for each name"


async def test_look_ups_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch):
    answers = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *words, **more: answers.wait(60) and [])
    look_ups = LookUps(at_once_max=1)
    first = asyncio.create_task(look_ups.find("one.example"))
    await asyncio.sleep(0)
    with pytest.raises(OSError, match="too many names"):
        await look_ups.find("two.example")
    answers.set()
    assert await first == []
    assert await look_ups.find("two.example") == []


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
