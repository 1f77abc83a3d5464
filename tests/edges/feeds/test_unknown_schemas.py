"""Values that name a schema which nobody knows: a registry is asked beside the loop that serves everybody."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headwater.client.log import Log
from headwater.schemas.lookup import REGISTRY
from tests.edges.feeds.clients import following, put, wait_for
from tests.edges.running import edges


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
    """The thread that follows the topic has asked, once for each record."""
    name = topic()
    with (
        edges(log.bootstrap) as running,
        following(f"{running.url}/topics/{name}", where="a=1") as reader,
    ):
        log.producer.produce(name, b"\0\0\0\0\x07value", b"\0\0\0\0\x07key")
        put(log, name, {"a": 1})
        wait_for(reader, 1)
        assert reader.values() == [{"a": 1}]
    assert asked == ["/schemas/ids/7"] * 2
