"""Values that name a schema which nobody knows: a registry is asked beside the loop that serves everybody."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import httpx
import pytest

from headwater.client.log import Log
from headwater.schemas.lookup import REGISTRY
from tests.edges.feeds.clients import following, put, wait_for
from tests.edges.running import edges, until
from tests.edges.webhooks.looking import has_member
from tests.edges.webhooks.receiver import SECRET, receiver


class Registry(BaseHTTPRequestHandler):
    """It knows none."""

    protocol_version = "HTTP/1.1"
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        body = json.dumps({"error_code": 40403, "message": "no"}).encode()
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    handler = type("Handler", (Registry,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    monkeypatch.setenv(REGISTRY, f"http://127.0.0.1:{server.server_port}")
    try:
        yield handler.asked
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def test_filters_ask_for_no_schema(log: Log, topic: Callable[..., str], asked: list[str]):
    """The thread that follows the topic has asked: for the value, and for the key if that was later."""
    name = topic()
    with (
        edges(log.bootstrap) as running,
        following(f"{running.url}/topics/{name}", where="a=1") as reader,
    ):
        log.producer.produce(name, b"\0\0\0\0\x07value", b"\0\0\0\0\x07key")
        put(log, name, {"a": 1})
        wait_for(reader, 1)
        assert reader.values() == [{"a": 1}]
    assert set(asked) == {"/schemas/ids/7"} and len(asked) <= 2


def test_a_webhook_waits_for_the_registry_beside_the_loop_and_passes_over_nothing(
    log: Log, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
):
    """A registry that hung held the process; while it was away, records counted as not wanted."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    name, counted, answers = topic(), topic(), threading.Event()
    with receiver() as inbox, hanging(answers) as asked, ExitStack() as stack:
        monkeypatch.setenv(REGISTRY, asked.url)
        own = {"from": f"topic:{name}", "to": inbox.url, "secret": "${HOOK_SECRET}"}
        more = {"where": ["a!=1"], "start": "beginning", "allow_private": True}
        alert = {"on": f"topic:{counted}", "when": "a > 1", "to": f"topic:{topic()}"}
        document = {"webhooks": {"shop": {**own, **more}}, "alerts": {"high": alert}}
        running = stack.enter_context(edges(log.bootstrap, document))
        until(lambda: has_member(log, "headwater.alert.high"), "the alert's member")
        for each in (name, counted):
            log.producer.produce(each, b"\0\0\0\0\x07value")
        log.producer.flush()
        until(lambda: asked.count >= 1, "the question")
        assert httpx.get(f"{running.url}/healthz", timeout=60).status_code == 200
        status = running.context.status
        answers.set()  # it is cut off: nobody knows what the value says
        for service in ("webhooks.shop", "alerts.high"):
            state = status.of(service)
            until(lambda s=state: "registry" in (s.last_failure or ""), "its trouble")
        assert inbox.got == []
        asked.knows = True  # that there is no such schema: what is no value has no field
        until(lambda: len(inbox.bodies()) == 1, "the delivery")


class Asked:
    """A registry that accepts and says nothing, then cuts off, then answers."""

    url, count, knows = "", 0, False


@contextmanager
def hanging(answers: threading.Event) -> Iterator[Asked]:
    asked = Asked()

    class Handler(Registry):
        asked: ClassVar[list[str]] = []

        def do_GET(self) -> None:
            found.count += 1
            if found.knows:
                super().do_GET()
                return
            answers.wait(60)
            self.close_connection = True

    found = asked
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    asked.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield asked
    finally:
        answers.set()
        server.shutdown()
        serving.join()
        server.server_close()
