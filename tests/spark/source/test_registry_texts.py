"""Keys and values as JSON, for whoever reads JSON: by the registry, which is asked once for many."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pyarrow as pa
import pytest

from headwater.spark.source.options import SourceOptions
from headwater.spark.source.values.registry import RegistryTexts

KNOWN = 3


class Asked(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    paths: list[str]

    def do_GET(self) -> None:
        self.paths.append(self.path)
        is_known = self.path.startswith(f"/schemas/ids/{KNOWN}")
        said = {"schema": '"string"'} if is_known else {"error_code": 40403, "message": "no"}
        body = json.dumps(said).encode()
        self.send_response(200 if is_known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def asked() -> Iterator[tuple[str, list[str]]]:
    handler = type("Handler", (Asked,), {"paths": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", handler.paths
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def test_an_id_that_nobody_knows_is_asked_for_once_of_many(asked: tuple[str, list[str]]):
    """A key that is a number of eight bytes begins as what names a schema does."""
    url, paths = asked
    given = {"kafka.bootstrap.servers": "a:1", "subscribe": "orders", "registry": url}
    texts = RegistryTexts(SourceOptions.of(given), "orders")
    numbers = [number.to_bytes(8, "big") for number in range(1000)]
    named = b"\0" + KNOWN.to_bytes(4, "big") + b"\x06tea"
    keys = texts.keys(pa.array([*numbers, named, b"plain"], pa.binary()))
    assert keys.to_pylist() == [*numbers, b'"tea"', b"plain"]
    assert paths == ["/schemas/ids/0", f"/schemas/ids/{KNOWN}"]
