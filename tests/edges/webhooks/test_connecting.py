"""Connections to receivers: kept for the next request, TLS checked by name, any answer understood or told."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import h11
import pytest

from headwater.client.records import Record
from headwater.edges.webhooks.delivery import Delivery
from headwater.edges.webhooks.poster import PIECES_MAX, Closed, Connections, Poster
from headwater.edges.webhooks.subscription import Posting
from headwater.testing.certificates import Authority

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
DELIVERY = Delivery("t-0-0", Record("t", 0, 0, 0, b"k", b"{}"))


@asynccontextmanager
async def serving(talk: Talk, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    async def heard(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # whoever asked has left
        finally:
            writer.close()

    server = await asyncio.start_server(heard, "127.0.0.1", 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]


async def request(reader: asyncio.StreamReader) -> bytes:
    """Up to the end of a body of two bytes."""
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(2)


def to(port: int, scheme: str = "http", host: str = "127.0.0.1") -> Connections:
    return Connections(f"{scheme}://{host}:{port}/a?b=c", allow_private=True)


async def test_a_connection_is_kept_for_the_next_request():
    seen: list[list[bytes]] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append([])
        while True:
            seen[-1].append(await request(reader))
            writer.write(OK)

    async with serving(talk) as port:
        connections = to(port)
        for _ in range(3):
            assert (await connections.post([], b"{}")).body == b"ok"
        connections.close()
    assert [len(each) for each in seen] == [3]
    assert seen[0][0].startswith(b"POST /a?b=c HTTP/1.1\r\nhost: 127.0.0.1:%d\r\n" % port)


async def test_a_kept_connection_that_was_closed_meanwhile_is_made_anew():
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(OK)
        await writer.drain()  # and closes without a word, as servers do after a while

    async with serving(once) as port:
        connections = to(port)
        for _ in range(3):
            assert (await connections.post([], b"{}")).status == 200
        connections.close()


async def test_a_receiver_that_closes_without_an_answer_has_failed():
    async def nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)

    async with serving(nothing) as port:
        with pytest.raises(Closed):
            await to(port).post([], b"{}")


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", 204),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 200),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", 200),
        (b"HTTP/1.1 500 No\r\ncontent-length: 99999999\r\n\r\n" + b"x" * 20_000, 500),
    ],
    ids=["after 100", "in chunks", "up to the end", "too long"],
)
async def test_answers_of_every_form_are_understood(said: bytes, status: int):
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(said)
        await writer.drain()

    async with serving(talk) as port:
        connections = to(port)
        assert (await connections.post([], b"{}")).status == status
        connections.close()


async def test_what_is_no_http_is_an_error_and_a_failed_attempt():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")
        await writer.drain()

    async with serving(talk) as port:
        with pytest.raises(h11.RemoteProtocolError):
            await to(port).post([], b"{}")
        posting = Posting(f"http://127.0.0.1:{port}/", ("s",), allow_private=True)
        outcome = await Poster(posting).send(DELIVERY)
    assert not outcome.is_delivered
    assert outcome.reason.startswith("RemoteProtocolError")


async def test_a_receiver_that_never_answers_is_given_up_after_its_time():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(talk) as port:
        posting = Posting(f"http://127.0.0.1:{port}/", ("s",), timeout_s=0.05, allow_private=True)
        outcome = await Poster(posting).send(DELIVERY)
    assert outcome.reason == "no answer within 0.05 s"


async def test_a_receiver_that_only_ever_says_that_it_will_answer_has_failed():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        while True:
            writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n" * 1000)
            await writer.drain()

    async with serving(talk) as port:
        posting = Posting(
            f"http://127.0.0.1:{port}/", ["s3cret"], allow_private=True, timeout_s=240
        )
        poster = Poster(posting)
        outcome = await poster.send(DELIVERY)
        await poster.close()
    assert not outcome.is_delivered and "only ever says" in outcome.reason


async def test_of_an_answer_in_crumbs_the_rest_is_not_read():
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1\r\nx\r\n" * 1000)
            await writer.drain()

    async with serving(talk) as port:
        connections = to(port)
        answer = await connections.post([], b"{}")
        connections.close()
    assert (answer.status, len(answer.body)) == (200, PIECES_MAX + 1)


async def test_tls_needs_a_certificate_of_that_name_from_somebody_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    authority = Authority(tmp_path)
    issued = authority.issue("receiver", hosts=["localhost"])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(issued.certificate, issued.key)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(OK)
        await writer.drain()

    async with serving(talk, tls) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            await to(port, "https", "localhost").post([], b"{}")
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
        trusting = to(port, "https", "localhost")
        assert (await trusting.post([], b"{}")).status == 200
        trusting.close()
        with pytest.raises(ssl.SSLCertVerificationError):  # another name for the same address
            await to(port, "https", "127.0.0.1").post([], b"{}")
