"""The door: hosts, origins, tokens, rates, large and slow bodies; with real clients and bare sockets."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from headwater.client.log import Log
from headwater.edges import guard
from headwater.project import http_protocol
from tests.edges.running import edges, until

Make = Callable[..., str]
SECRETS = {"WRITER": "w" * 20, "READER": "r" * 20, "ALL": "a" * 20}
ORIGIN = "https://shop.example"


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


@contextmanager
def serving(log: Log, document: dict[str, Any]) -> Iterator[httpx.Client]:
    with (
        edges(log.bootstrap, document) as running,
        httpx.Client(base_url=running.url, timeout=60) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def guarded(log: Log) -> Iterator[httpx.Client]:
    with pytest.MonkeyPatch.context() as patch:
        for name, secret in SECRETS.items():
            patch.setenv(name, secret)
        tokens = {
            "writer": {"secret": "${WRITER}", "write": ["t*"]},
            "reader": {"secret": "${READER}", "read": ["t*", "view:totals"]},
            "all": {"secret": "${ALL}", "read": ["*"], "write": ["*"]},
        }
        with serving(log, {"tokens": tokens, "origins": [ORIGIN]}) as client:
            yield client


def test_a_token_is_needed_and_the_right_one(guarded: httpx.Client, topic: Make):
    path = f"/topics/{topic()}"
    without = guarded.post(path, json=1)
    assert (without.status_code, without.headers["www-authenticate"]) == (401, "Bearer")
    assert guarded.post(path, json=1, headers=bearer("x" * 20)).status_code == 401
    basic = {"Authorization": f"Basic {SECRETS['WRITER']}"}
    assert guarded.post(path, json=1, headers=basic).status_code == 401
    lacking = guarded.post(path, json=1, headers=bearer(SECRETS["READER"]))
    assert lacking.status_code == 403
    assert "reader may not write" in lacking.json()["detail"]
    assert SECRETS["READER"] not in lacking.text
    assert guarded.post(path, json=1, headers=bearer(SECRETS["WRITER"])).status_code == 200
    assert guarded.post(path, json=1, headers=bearer(SECRETS["ALL"])).status_code == 200
    in_query = guarded.post(path, json=1, params={"access_token": SECRETS["ALL"]})
    assert in_query.status_code == 401  # in an address only where a browser has no other way


def test_no_answer_is_kept_on_the_way(guarded: httpx.Client, topic: Make):
    """The address of a page may hold the token, and of a page that a cache has, what it says."""
    path = f"/topics/{topic()}"
    for asked in (path, "/status", "/nothing", "/openapi.json", f"{path}?access_token={'a' * 20}"):
        for headers in (bearer("a" * 20), {}):
            answer = guarded.get(asked, headers=headers)
            assert answer.headers.get_list("cache-control") == ["no-store"]
    with guarded.stream(
        "GET", path, headers={**bearer("a" * 20), "accept": "text/event-stream"}
    ) as events:
        assert events.headers.get_list("cache-control") == ["no-cache, no-transform"]


def test_who_guesses_tokens_is_told_to_wait_and_others_are_not(log: Log, topic: Make) -> None:
    path = f"/topics/{topic()}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WRITER", SECRETS["WRITER"])
        patch.setattr(guard, "WRONG_PER_SECOND", 0.001)
        tokens = {"writer": {"secret": "${WRITER}", "write": ["t*"]}}
        with serving(log, {"tokens": tokens}) as client:
            wrong = bearer("x" * 20)
            first, said = (client.post(path, json=1, headers=wrong) for _ in range(2))
            assert (first.status_code, said.status_code) == (401, 429)
            assert int(said.headers["retry-after"]) >= 1
            assert client.post(path, json=1, headers=bearer(SECRETS["WRITER"])).status_code == 200


def test_what_is_not_for_everybody_needs_a_scope_too(guarded: httpx.Client):
    for path in ("/status", "/metrics", "/nothing/here"):
        assert guarded.get(path).status_code == 401
        assert guarded.get(path, headers=bearer(SECRETS["READER"])).status_code == 403
    assert guarded.get("/status", headers=bearer(SECRETS["ALL"])).status_code == 200
    assert guarded.get("/status", params={"access_token": SECRETS["ALL"]}).status_code == 200
    assert guarded.get("/nothing/here", headers=bearer(SECRETS["ALL"])).status_code == 404
    assert guarded.get("/healthz").status_code == 200
    assert guarded.get("/openapi.json").status_code == 200


def test_keys_of_two_senders_do_not_meet(guarded: httpx.Client, topic: Make):
    path = f"/topics/{topic()}"
    for name in ("WRITER", "ALL"):
        words = {**bearer(SECRETS[name]), "Idempotency-Key": "same"}
        answer = guarded.post(path, json=1, headers=words)
        assert "idempotent-replay" not in answer.headers
        assert guarded.post(path, json=1, headers=words).headers["idempotent-replay"] == "true"


def test_a_websocket_passes_the_same_door(guarded: httpx.Client, topic: Make):
    url = str(guarded.base_url).replace("http", "ws") + f"/topics/{topic()}"
    for words, status in (
        ({}, 401),
        ({"additional_headers": bearer(SECRETS["WRITER"])}, 403),
        ({"origin": "https://evil.example"}, 403),
    ):
        with pytest.raises(InvalidStatus) as refused, connect(url, **words):  # type: ignore[arg-type]
            pass
        assert refused.value.response.status_code == status


def test_pages_of_listed_origins_may_call_and_are_told_what_they_need(
    guarded: httpx.Client, topic: Make
):
    path = f"/topics/{topic()}"
    asked = {
        "Origin": ORIGIN,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type, ce-id",
    }
    preflight = guarded.options(path, headers=asked)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == ORIGIN
    assert preflight.headers["access-control-allow-headers"] == "authorization, content-type, ce-id"
    sent = {"Origin": ORIGIN, **bearer(SECRETS["ALL"])}
    answer = guarded.post(path, json=1, headers=sent)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert "Headwater-Position" in answer.headers["access-control-expose-headers"]
    assert answer.headers["vary"] == "Origin"
    refused = guarded.post(path, json=1, headers={"Origin": ORIGIN})
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == ORIGIN  # else the page cannot read it


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://shop.example", "x"])
def test_pages_of_other_origins_are_refused_whatever_they_ask(
    guarded: httpx.Client, topic: Make, origin: str
):
    words = {"Origin": origin, **bearer(SECRETS["ALL"]), "Access-Control-Request-Method": "POST"}
    for method in ("POST", "GET", "OPTIONS"):
        answer = guarded.request(method, f"/topics/{topic()}", headers=words)
        assert answer.status_code == 403
        assert "access-control-allow-origin" not in answer.headers


def test_our_own_page_and_names_of_this_machine_are_let_in(http: httpx.Client, topic: Make):
    path, own = f"/topics/{topic()}", str(http.base_url).rstrip("/")
    assert http.post(path, json=1, headers={"Origin": own}).status_code == 200
    for host in ("localhost:80", "[::1]", "127.0.0.2"):
        assert http.post(path, json=1, headers={"Host": host}).status_code == 200
    for host in ("evil.example", "evil.example:80", "[", "127.0.0.1.evil.example"):
        assert http.post(path, json=1, headers={"Host": host}).status_code == 403


def test_a_sender_that_asks_too_often_is_told_when_to_come_again(log: Log, topic: Make):
    # A thousandth a second: none is granted again while the test lasts, however slow the machine is.
    with serving(log, {"limits": {"requests_per_second": 0.001}}) as http:
        path = f"/topics/{topic()}"
        assert http.post(path, json=1).status_code == 200
        refused = http.post(path, json=1)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 100
        assert refused.headers["content-type"] == "application/problem+json"


def test_a_sender_that_moves_too_much_is_told_when_to_come_again(log: Log, topic: Make):
    with serving(log, {"limits": {"bytes_per_second": 1}}) as http:
        path = f"/topics/{topic()}"
        assert http.post(path, json="x" * 5000).status_code == 200
        refused = http.post(path, json=1)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) > 1000


def test_a_body_that_is_too_large_is_refused_said_or_not(log: Log, topic: Make):
    with serving(log, {"limits": {"body_bytes": 1000}}) as http:
        path = f"/topics/{topic()}"
        assert http.post(path, content=bytes(1000)).status_code == 200
        for body in (
            bytes(1001),
            iter([bytes(600)] * 2),
            bytes(5 * 1024**2),
            iter([bytes(9**6)] * 9),
        ):
            answer = http.post(path, content=body)
            assert answer.status_code == 413
            assert answer.json()["detail"] == "the body has more than 1000 bytes"
        waiting = {"Expect": "100-continue", "Content-Length": "5000"}
        assert b" 413 " in first_line(http, path, waiting, b"")


def test_a_body_that_does_not_come_is_not_waited_for(log: Log, topic: Make):
    with serving(log, {"limits": {"slow_seconds": 0.5}}) as http:
        path = f"/topics/{topic()}"
        assert b" 408 " in first_line(http, path, {"Content-Length": "10"}, b"12345")
        assert b" 408 " in first_line(
            http, path, {"Transfer-Encoding": "chunked"}, b"5\r\n12345\r\n"
        )


def test_bodies_of_all_together_have_a_bound(log: Log, topic: Make):
    """Requests that never end: the one too many is told to come again, and the others keep theirs."""
    limits = {"body_bytes": 1000, "waiting_bytes": 1000, "slow_seconds": 60}
    with serving(log, {"limits": limits}) as http:
        path = f"/topics/{topic()}"
        held = [begun(http, path, {"Content-Length": "1000"}, bytes(999)) for _ in range(4)]
        try:
            refused = first_to_answer(held)
            assert b" 429 " in refused.recv(1000)
            for each in held:
                if each is not refused:
                    each.sendall(b"x")
                    assert b" 200 " in each.recv(1000)
        finally:
            for each in held:
                each.close()


def first_to_answer(sockets: list[socket.socket]) -> socket.socket:
    with selectors.DefaultSelector() as selector:  # select() takes no descriptor above 1,023
        for each in sockets:
            selector.register(each, selectors.EVENT_READ)
        ((key, _),) = selector.select(60)
        return next(each for each in sockets if each is key.fileobj)


def begun(http: httpx.Client, path: str, headers: dict[str, str], body: bytes) -> socket.socket:
    host, port = http.base_url.host, http.base_url.port
    assert port is not None
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}:{port}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    opened = socket.create_connection((host, port), timeout=60)
    opened.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return opened


def first_line(http: httpx.Client, path: str, headers: dict[str, str], body: bytes) -> bytes:
    def answer() -> bytes:
        """Nothing where this machine was too slow to send the head in time."""
        with begun(http, path, headers, body) as opened:
            return opened.recv(1000).partition(b"\r\n")[0]

    return bytes(until(answer, "an answer"))


@contextmanager
def bare(slow_seconds: float, *, reads: bool = False) -> Iterator[tuple[str, int]]:
    """A server with our protocol, and nothing behind it that has a bound of its own."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            while reads and (await receive()).get("more_body", False):
                pass
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            app, http=http_protocol.protocol(slow_seconds), lifespan="off", log_config=None
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            server.should_exit = True
            thread.join()


def test_a_head_that_does_not_come_is_not_waited_for():
    whole = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with bare(0.3) as address:
        for sent in (b"", b"GET / HTTP/1.1\r\nHost: lo"):
            with socket.create_connection(address, timeout=60) as opened:
                opened.sendall(sent)
                assert opened.recv(1000) == b""

        def second() -> bytes:
            """What comes of a whole head and a broken one; nothing where this machine was too slow."""
            with socket.create_connection(address, timeout=60) as opened:
                opened.sendall(whole + whole[:-5])
                return b"".join(iter(lambda: opened.recv(1000), b""))

        assert until(second, "an answer to the first head").count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("body", [b"", b"a", b"a" * 9])
def test_a_body_that_nobody_bounds_is_not_waited_for_either(body: bytes) -> None:
    """As of the form by which one signs in to the console."""
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
    with bare(0.5, reads=True) as address:
        with socket.create_connection(address, timeout=60) as opened:
            opened.sendall(head + body)
            said = b"".join(iter(lambda: opened.recv(1000), b""))
            assert said == b""
        with socket.create_connection(address, timeout=60) as opened:
            opened.sendall(head + b"a" * 10)
            assert b" 200 " in opened.recv(1000)


def test_a_head_without_end_is_refused():
    begin = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "
    with bare(60) as address, socket.create_connection(address, timeout=60) as opened:
        # One byte too many, and no more: a close with bytes unread would be a reset, and no answer.
        opened.sendall(begin.ljust(http_protocol.HEAD_BYTES_MAX + 1, b"a"))
        assert b" 400 " in opened.recv(1000)


@pytest.mark.parametrize("name", ["Host", "authorization", "Idempotency-Key", "Headwater-Key"])
def test_what_is_said_once_is_refused_twice(name: str) -> None:
    """Of two a proxy before us may have checked the other."""
    head = f"POST / HTTP/1.1\r\nHost: localhost\r\n{name}: a\r\n{name.upper()}: b\r\n"
    with bare(60) as address, socket.create_connection(address, timeout=60) as opened:
        opened.sendall(head.encode() + b"Content-Length: 1\r\n\r\na")
        said = b"".join(iter(lambda: opened.recv(1000), b""))
    assert said.startswith(b"HTTP/1.1 400 ") and name.lower().encode() in said


CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n"


@pytest.mark.parametrize("line", [b"X: %s\r\n" % (b"a" * 1000), b"a" * 1010])
def test_trailers_without_end_are_not_read(line: bytes) -> None:
    with bare(60) as address, socket.create_connection(address, timeout=60) as opened:
        opened.sendall(CHUNKED)
        assert b" 200 " in opened.recv(1000)
        with pytest.raises(ConnectionError):
            opened.sendall(line * 100_000)


def test_a_trailer_is_no_header(guarded: httpx.Client, topic: Make) -> None:
    """What the headers did not say, nothing that comes after the body says."""
    path = f"/topics/{topic()}"
    trailer = f"Authorization: Bearer {SECRETS['WRITER']}\r\n\r\n".encode()
    headers = {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    said = first_line(guarded, path, headers, b"1\r\n1\r\n0\r\n" + trailer)
    assert b" 401 " in said
    allowed = {**headers, **bearer(SECRETS["WRITER"])}
    with begun(guarded, path, allowed, b"1\r\n1\r\n0\r\nHeadwater-Key: forged\r\n\r\n") as opened:
        assert b" 200 " in opened.recv(1000)
    found = guarded.get(path, headers=bearer(SECRETS["ALL"]))
    assert found.status_code == 200 and '"offset"' in found.text and "forged" not in found.text


def test_the_rest_of_a_request_that_was_answered_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_protocol, "DRAIN_S", 0.3)
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
    with bare(60) as address, socket.create_connection(address, timeout=60) as opened:
        opened.sendall(head)
        assert b" 200 " in opened.recv(1000)
        opened.sendall(b"a")
        assert b"".join(iter(lambda: opened.recv(1000), b"")) in (b"", b"0\r\n\r\n")


def test_a_request_whose_rest_comes_late_keeps_its_connection() -> None:
    head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
    with bare(60) as address, socket.create_connection(address, timeout=60) as opened:
        for _ in range(3):
            opened.sendall(head)
            assert b" 200 " in opened.recv(1000)
            opened.sendall(b"a" * 10)


def test_empty_lines_do_not_keep_a_connection() -> None:
    with bare(0.5) as address, socket.create_connection(address, timeout=60) as opened:
        opened.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in opened.recv(1000)
        opened.sendall(b"\r\n")
        assert b"".join(iter(lambda: opened.recv(1000), b"")) in (b"", b"0\r\n\r\n")
