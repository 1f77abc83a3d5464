"""A receiver of webhooks: a real HTTP server in a thread, which answers as a test says and remembers all."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headwater.edges.hooks.presets import STANDARD
from headwater.edges.hooks.signatures import verify

SECRET = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cw=="


@dataclass(frozen=True)
class Request:
    """Header names in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def key(self) -> str:
        return self.headers.get("headwater-key", "")

    @property
    def offset(self) -> int:
        return int(self.headers["headwater-offset"])


Answer = int | tuple[int, dict[str, str]]


@dataclass
class Receiver:
    """`answer` says what a request gets: a status, with headers if need be. Signatures are checked."""

    url: str = ""
    secret: str | None = SECRET
    """None: the test looks at signatures itself."""
    answer: Callable[[Request], Answer] = lambda request: 200
    got: list[Request] = field(default_factory=list)
    """Every request, in the order in which they came."""
    taken: list[Request] = field(default_factory=list)
    """Those that were answered with 2xx."""
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def bodies(self) -> list[bytes]:
        with self.lock:
            return [each.body for each in self.taken]

    def by_key(self) -> dict[str, list[int]]:
        """Offsets that were taken, per key, in order."""
        found: dict[str, list[int]] = {}
        with self.lock:
            for each in self.taken:
                found.setdefault(each.key, []).append(each.offset)
        return found

    def heard(self, request: Request) -> Answer:
        with self.lock:
            self.got.append(request)
            try:
                now = int(request.headers["webhook-timestamp"])
                if self.secret is not None:
                    verify(STANDARD, [self.secret], request.headers, request.body, now)
            except Exception as error:  # told by the test, not to the sender
                self.wrong.append(repr(error))
        answer = self.answer(request)
        status = answer if isinstance(answer, int) else answer[0]
        if 200 <= status < 300:
            with self.lock:
                self.taken.append(request)
        return answer


@contextmanager
def receiver(
    answer: Callable[[Request], Answer] = lambda request: 200, secret: str | None = SECRET
) -> Iterator[Receiver]:
    found = Receiver(answer=answer, secret=secret)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            said = found.heard(Request(self.path, headers, body))
            status, more = said if isinstance(said, tuple) else (said, {})
            try:
                self.send_response(status)
                for name, value in {**more, "content-length": "4"}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(b"said")
            except OSError:
                self.close_connection = True  # whoever asked is gone: killed

        def log_message(self, format: str, *words: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            pass  # connections that a kill has cut

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        found.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
    assert found.wrong == []
