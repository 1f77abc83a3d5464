"""What one sender asks for, however slow it is and however much of it, is not what others wait for."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from headwater.client import groups
from headwater.client.log import Log
from headwater.edges import http_in
from headwater.edges.drafts import Ask, Drafts
from headwater.edges.schemas import Schema, Subject
from tests.edges.running import Running, edges, until
from tests.edges.test_sharing import (
    BODY_BYTES,
    GREEDY,
    OTHER,
    TOKENS,
    bearer,
    half_bodies,
    sent,
    shared,
)

Make = Callable[..., str]
MIB = 1024**2
MANY = 40


@contextmanager
def two_tokens(log: Log, **limits: int) -> Iterator[Running]:
    tokens = {name: {**each, "read": ["*", "group:*"]} for name, each in TOKENS.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GREEDY", GREEDY)
        patch.setenv("OTHER", OTHER)
        with edges(log.bootstrap, {"tokens": tokens, "limits": limits}) as running:
            yield running


def post(running: Running, topic: str, body: bytes, **headers: str) -> httpx.Response:
    words = {**bearer(OTHER), **{name.replace("_", "-"): each for name, each in headers.items()}}
    return httpx.post(f"{running.url}/topics/{topic}", content=body, headers=words, timeout=60)


def loop_cpu_s(running: Running) -> float:
    """What the thread of the edges' event loop has used so far."""
    thread = running.run(_thread())
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


async def _thread() -> int:
    return threading.get_ident()


def test_a_packed_body_is_unpacked_beside_the_event_loop(log: Log, topic: Make):
    packed = gzip.compress(bytes(4 * MIB)) * 60
    kind = {"Content_Type": "application/json", "Content_Encoding": "gzip"}
    with two_tokens(log, body_bytes=256 * MIB) as running:
        name = topic()
        before, before_all = loop_cpu_s(running), time.process_time()
        answer = post(running, name, packed, **kind)
        loop_s, all_s = loop_cpu_s(running) - before, time.process_time() - before_all
    assert (answer.status_code, "no JSON" in answer.text) == (400, True), answer.text
    assert loop_s < all_s / 4, f"{loop_s:.3f} s of {all_s:.3f} s were the event loop's"


def test_what_a_body_unpacks_to_counts_among_its_senders_bytes(log: Log, topic: Make):
    name, words = topic(), f"Authorization: Bearer {GREEDY}\r\n"
    packed = gzip.compress(bytes(BODY_BYTES - 10_000))
    kind = {"Content-Encoding": "gzip"}
    with shared(log) as running, ExitStack() as stack:
        for each in half_bodies(running, f"/topics/{name}", words):
            stack.enter_context(each)
        greedy, other = (
            httpx.post(
                f"{running.url}/topics/{name}",
                content=packed,
                headers={**bearer(secret), **kind},
                timeout=60,
            )
            for secret in (GREEDY, OTHER)
        )
        assert greedy.status_code == 429, greedy.text
        assert other.status_code == 200, other.text


def test_one_request_of_many_lines_leaves_room_for_others(log: Log, topic: Make):
    name, kind = topic(), {"Content_Type": "application/x-ndjson"}
    with two_tokens(log, body_bytes=64 * 1024, waiting_bytes=MIB) as running:
        much = post(running, name, b"1\n" * 20_000, **kind)
        assert (much.status_code, much.json()["hint"][:4]) == (413, "send"), much.text
        once = post(running, name, b"1\n" * 20_000, **kind, Idempotency_Key="k")
        assert once.status_code in (200, 413), once.text
        less = post(running, name, b"1\n" * 5_000, **kind)
        assert less.status_code == 200, less.text


@contextmanager
def slow_topics(running: Running, patch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Whether a topic called slow… is there, the log says when told; of others at once."""
    go_on, asked, known = threading.Event(), threading.Event(), running.context.log.partitions

    def partitions(name: str) -> list[int]:
        if name.startswith("slow"):
            asked.set()
            go_on.wait(120)
        return known(name)

    patch.setattr(running.context.log, "partitions", partitions)
    try:
        yield asked
    finally:
        go_on.set()


def requests(running: Running, stack: ExitStack, method: str, path: str, words: str = "") -> None:
    """Many of the greedy one; `{n}` of the path is another each time."""
    head = f" HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {GREEDY}\r\n{words}"
    length = "Content-Length: 1\r\n\r\n1" if method == "POST" else "\r\n"
    for number in range(MANY):
        line = f"{method} {path.format(n=number)}"
        own = words and f"Idempotency-Key: k{number}\r\n"
        stack.enter_context(sent(running, line + head.removesuffix(words) + own + length))


@pytest.mark.parametrize("words", ["", "Idempotency-Key"])
def test_who_asks_for_topics_that_are_not_there_holds_up_nobody_else(
    log: Log, topic: Make, monkeypatch: pytest.MonkeyPatch, words: str
):
    name = topic()
    with two_tokens(log) as running, ExitStack() as stack:
        asked = stack.enter_context(slow_topics(running, monkeypatch))
        requests(running, stack, "POST", "/topics/slow{n}", words)
        until(asked.is_set, "the first question")
        assert post(running, name, b"1").status_code == 200
        assert post(running, name, b"1", Idempotency_Key="mine").status_code == 200


def test_slow_answers_to_one_by_the_rest_interface_hold_up_nobody_else(
    log: Log, topic: Make, monkeypatch: pytest.MonkeyPatch
):
    name, go_on, asked = topic(), threading.Event(), threading.Event()
    known = groups.named

    def named(of: Log, group: str) -> groups.Group:
        if group.startswith("slow"):
            asked.set()
            go_on.wait(120)
        return known(of, group)

    monkeypatch.setattr(groups, "named", named)
    with two_tokens(log) as running, ExitStack() as stack:
        stack.callback(go_on.set)
        other = stack.enter_context(
            httpx.Client(base_url=running.url, headers=bearer(OTHER), timeout=60)
        )
        at = f"/v3/clusters/{other.get('/v3/clusters').json()['data'][0]['cluster_id']}"
        requests(running, stack, "GET", at + "/consumer-groups/slow{n}")
        until(asked.is_set, "the first question")
        assert other.get(f"{at}/topics/{name}").status_code == 200
        record = {"value": {"type": "JSON", "data": 1}}
        assert other.post(f"{at}/topics/{name}/records", json=record).status_code == 200
        assert other.get("/views/none").status_code == 404


def test_the_loops_own_threads_are_not_for_strangers(
    log: Log, topic: Make, monkeypatch: pytest.MonkeyPatch
):
    """Keys of an issuer, alerts and the end of the process wait for those."""
    name, go_on, begun = topic(), threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        go_on.wait(120)

    with shared(log, hook=name) as running, ExitStack() as stack:
        stack.callback(go_on.set)
        for _ in range(64):  # more than there are
            running.loop.call_soon_threadsafe(running.loop.run_in_executor, None, wait)
        until(begun.is_set, "the first of them")
        other = stack.enter_context(
            httpx.Client(base_url=running.url, headers=bearer(OTHER), timeout=60)
        )
        at = f"/v3/clusters/{other.get('/v3/clusters').json()['data'][0]['cluster_id']}"
        assert other.get(f"{at}/topics/{name}").status_code == 200
        assert other.get("/views/none").status_code == 404
        assert other.post(f"/topics/{name}", json=1).status_code == 200
        assert other.get(f"/topics/{name}").status_code == 200


def test_large_bodies_of_one_leave_threads_for_those_of_others(
    log: Log, topic: Make, monkeypatch: pytest.MonkeyPatch
):
    go_on, asked, known = threading.Event(), threading.Event(), http_in.drafts_of

    def drafts_of(ask: Ask, body: bytes, schema: Schema | Subject | None) -> Drafts:
        if body.startswith(b'"slow'):
            asked.set()
            go_on.wait(120)
        return known(ask, body, schema)

    monkeypatch.setattr(http_in, "drafts_of", drafts_of)
    name, large = topic(max_message_bytes=8 * MIB), b'"slow' + b"x" * 300_000 + b'"'
    kind = {"Content_Type": "application/json"}
    with two_tokens(log) as running, ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(10))
        stack.callback(go_on.set)  # before they are waited for
        url, words = f"{running.url}/topics/{name}", bearer(GREEDY)
        for _ in range(10):
            threads.submit(httpx.post, url, content=large, headers=words, timeout=120)
        until(asked.is_set, "the first of them")
        assert post(running, name, large.replace(b"slow", b"fast"), **kind).status_code == 200


@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [
        ("/v3", "application/json", b"{}"),
        ("/v3", "application/json", b'{"partition_id":9}'),
        ("/topics/{}?partial=true", "application/x-ndjson", b"x\n"),
        ("/topics/{}?key=k", "application/x-ndjson", b"1\n"),
    ],
)
def test_many_small_records_of_one_request_are_dealt_with_beside_the_event_loop(
    log: Log, topic: Make, path: str, kind: str, body: bytes
):
    """A body of 200 KB held up everybody for as long as it took: seconds."""
    name = topic()
    with two_tokens(log) as running:
        place = f"{running.url}{path.format(name)}"
        if path == "/v3":
            found = httpx.get(f"{place}/clusters", headers=bearer(OTHER), timeout=60).json()
            place += f"/clusters/{found['data'][0]['cluster_id']}/topics/{name}/records"
        words = {**bearer(GREEDY), "Content-Type": kind}
        loop_s, all_s = loop_cpu_s(running), time.process_time()
        answer = httpx.post(place, content=body * 20_000, headers=words, timeout=300)
        loop_s, all_s = loop_cpu_s(running) - loop_s, time.process_time() - all_s
        assert answer.status_code == 200, answer.text
        assert loop_s < all_s / 4, "of all that there is to do, little is the loop's"
