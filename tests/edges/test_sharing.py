"""What all senders have in common, memory and threads: whoever uses much of it leaves enough for others."""

from __future__ import annotations

import asyncio
import re
import selectors
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from functools import partial
from pathlib import Path

import httpx
import pytest
from starlette.types import Message

import headwater.edges
from headwater.client.log import Log
from headwater.edges.app import make_app
from headwater.edges.caller import SENDER
from headwater.edges.errors import Overloaded, TooLarge
from headwater.edges.memory_share import MemoryShare
from headwater.edges.workers import WAITING_MAX, Workers
from tests.edges.running import Running, edges

Make = Callable[..., str]
BODY_BYTES = 100_000
GREEDY, OTHER = "g" * 20, "o" * 20
TOKENS = {
    "greedy": {"secret": "${GREEDY}", "read": ["*"], "write": ["*"]},
    "other": {"secret": "${OTHER}", "read": ["*"], "write": ["*"]},
}


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


@contextmanager
def shared(log: Log, hook: str = "") -> Iterator[Running]:
    document = {
        "tokens": TOKENS,
        "limits": {"body_bytes": BODY_BYTES, "waiting_bytes": BODY_BYTES},
        "hooks": {"gh": {"style": "github", "secret": "${HOOK}", "topic": hook}} if hook else {},
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, secret in {"GREEDY": GREEDY, "OTHER": OTHER, "HOOK": "h" * 20}.items():
            patch.setenv(name, secret)
        with edges(log.bootstrap, document) as running:
            yield running


def sent(running: Running, text: str) -> socket.socket:
    url = httpx.URL(running.url)
    made = socket.create_connection((url.host, url.port), timeout=60)
    made.sendall(text.encode())
    return made


def half_bodies(running: Running, path: str, words: str = "") -> Iterator[socket.socket]:
    """Requests whose bodies do not end; the last is the first that is answered."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{words}Content-Length: {BODY_BYTES}\r\n\r\n"
    with selectors.DefaultSelector() as answers:
        for _ in range(20):
            made = sent(running, head + "x" * (BODY_BYTES - 100))
            answers.register(made, selectors.EVENT_READ)
            yield made
            if answers.select(0.5):
                return
    raise AssertionError("nobody was ever refused")


@pytest.mark.parametrize("greedy", ["a stranger at a hook", "a token"])
def test_half_bodies_leave_room_for_others(log: Log, topic: Make, greedy: str):
    name = topic()
    is_stranger = greedy == "a stranger at a hook"
    path = "/hooks/gh" if is_stranger else f"/topics/{name}"
    words = "" if is_stranger else f"Authorization: Bearer {GREEDY}\r\n"
    with shared(log, hook=name) as running, ExitStack() as stack:
        made = [stack.enter_context(each) for each in half_bodies(running, path, words)]
        assert len(made) > 3  # one sender alone may have most of it
        stored = httpx.post(
            f"{running.url}/topics/{name}",
            json={"a": "x" * 20_000},
            headers=bearer(OTHER),
            timeout=60,
        )
        assert stored.status_code == 200, stored.text


def test_pages_that_take_long_hold_up_only_who_asks_for_them(log: Log, topic: Make):
    long, name = topic(), topic()
    many = 80
    ask = f"GET /topics/{long}?grep=nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    words = f"Authorization: Bearer {GREEDY}\r\n\r\n"
    with shared(log) as running, ExitStack() as stack, selectors.DefaultSelector() as answers:
        lines = b"".join(b'{"n":%d}\n' % n for n in range(500))
        kind = {"Content-Type": "application/x-ndjson", **bearer(OTHER)}
        for _ in range(10):  # no request may take all of what is little here
            url = f"{running.url}/topics/{long}"
            filled = httpx.post(url, content=lines, headers=kind, timeout=60)
            assert filled.status_code == 200, filled.text
        for _ in range(many):
            each = stack.enter_context(sent(running, ask + words))
            answers.register(each, selectors.EVENT_READ)
        with httpx.Client(base_url=running.url, headers=bearer(OTHER), timeout=60) as other:
            assert other.get(f"/topics/{name}").status_code == 200
            assert other.post(f"/topics/{name}", json=2).status_code == 200
        assert len(answers.select(0)) < many, "they were answered before others were"


def of(sender: str, call: Callable[[], None]) -> None:
    """As a request of this sender."""

    def work() -> None:
        SENDER.set(sender)
        call()

    copy_context().run(work)


async def test_who_has_a_network_of_addresses_has_one_senders_share(log: Log):
    """Of IPv6, every customer is given 2^64 of them."""
    with edges(log.bootstrap, {"limits": {"requests_at_once": 1}}) as running:
        app = make_app(running.context, loopback_only=False)

        async def answer(address: str, meanwhile: Callable[[], Awaitable[int]] | None) -> int:
            found: list[int] = []

            async def send(message: Message) -> None:
                if meanwhile is not None and not found:
                    found.append(await meanwhile())
                elif message["type"] == "http.response.start":
                    found.append(message["status"])

            scope = {"type": "http", "method": "GET", "path": "/healthz", "client": (address, 1)}
            scope |= {"headers": [(b"host", b"x")], "query_string": b"", "raw_path": b"/healthz"}
            await app(scope, receive, send)
            return found[0]

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        first = "2001:db8:1:2::1"
        beside = {
            "2001:db8:1:2:ffff::9": 429,
            "2001:db8:1:3::1": 200,
            "::ffff:192.0.2.7": 200,
        }
        for address, status in beside.items():
            assert await answer(first, partial(answer, address, None)) == status, address


def take_one_by_one(held: MemoryShare) -> None:
    for _ in range(held.most):
        held.take(1)


@pytest.mark.parametrize("greedy", [1, 2, 3])
def test_whoever_is_greedy_there_is_room_for_one_more(greedy: int):
    held = MemoryShare(10_000)
    for sender in range(greedy):
        take_all = partial(take_one_by_one, held)
        with pytest.raises(Overloaded):
            of(f"greedy {sender}", take_all)
    assert held.bytes > 10_000 // 2
    of("other", lambda: held.take(50))
    before = held.bytes
    of("other", lambda: held.give(50))
    assert held.bytes == before - 50


def test_no_request_may_have_all_however_little_there_is_beside_it():
    held = MemoryShare(1000)
    with pytest.raises(TooLarge):
        of("greedy", lambda: held.take(751))
    of("greedy", lambda: held.take(750))
    of("other", lambda: held.take(150))


async def test_a_sender_has_some_of_the_threads_and_a_line_that_ends():
    workers, go_on = Workers(4, 2, "test"), threading.Event()

    async def as_sender(name: str, work: Callable[[], object]) -> object:
        SENDER.set(name)
        return await workers.run(work)

    greedy = [
        asyncio.create_task(as_sender("greedy", lambda: go_on.wait(60))) for _ in range(WAITING_MAX)
    ]
    try:
        await asyncio.sleep(0)  # they have begun, and wait
        with pytest.raises(Overloaded):
            await as_sender("greedy", lambda: None)
        assert await as_sender("other", lambda: 7) == 7
    finally:
        go_on.set()
    assert all(await asyncio.gather(*greedy))
    assert await as_sender("greedy", lambda: 8) == 8
    workers.close()


_SHARED = {  # where something waits, and why nobody waits there for a stranger
    "alerts/watcher.py": "of one rule",
    "alerts/record_rules.py": "of one rule",
    "bridges/amqp.py": "of one bridge",
    "bridges/mqtt.py": "of one bridge",
    "bridges/runner.py": "of one bridge",
    "bulk.py": "senders take turns (turns)",
    "feeds/channels.py": "a line for each sender",
    "feeds/follower.py": "of one topic",
    "feeds/outbox.py": "of one client",
    "feeds/recent.py": "of one topic",
    "feeds/views/changes.py": "of one view",
    "feeds/views/feeds.py": "of the views, one look at a time each",
    "idempotency/appender.py": "senders take turns (turns)",
    "multicast/listener.py": "of one group: its packets are in order",
    "multicast/speaker.py": "of one bridge",
    "producers.py": "librdkafka's; a batch is as large as its topic takes",
    "rest/instance.py": "of one consumer",
    "rest/instances.py": "a thread for each consumer",
    "rows/positions.py": "of the views, one question at a time each",
    "subscriptions/directory.py": "senders take turns (FairQueue)",
    "subscriptions/history.py": "a line for each subscription",
    "subscriptions/topic_view.py": "of one topic",
    "tracing/exporter.py": "spans, of which any may be left out",
    "tracing/in_flight.py": "spans, of which any may be left out",
    "udp/receiver.py": "senders have shares",
    "webhooks/account.py": "of one subscription",
    "webhooks/deliverer.py": "of one subscription",
    "webhooks/member.py": "of one subscription",
    "workers.py": "senders have shares, and lines that end",
}
_WAITING = re.compile(
    r"ThreadPoolExecutor\(|\bdeque\(|Semaphore\(|asyncio\.Lock\(|SimpleQueue\(|\bQueue\(|new_producer\("
    r"|_make\(|FairQueue\(|FairThreads\("
)


def test_wherever_something_waits_it_is_said_how_strangers_share_it():
    """Who adds a queue, a lock or a pool decides who waits in it for whom: by `SENDER`, or for one only."""
    root = Path(headwater.edges.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if _WAITING.search(path.read_text())
    }
    known = {*_SHARED, "appender.py", "idempotency/writer.py"}  # what waits there waits in those
    assert found - known == set(), "say how it is shared"
    assert set(_SHARED) - found == set(), "nothing waits there any more"
