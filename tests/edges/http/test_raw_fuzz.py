"""Raw HTTP that no client would send, by many connections at once: nothing breaks, and a bystander is served.

Half requests, trailers, requests in a row, slow bodies, bad chunks, bad upgrades, floods of headers, bytes at
random, from a seed that a failure prints. The edges are a process of their own, whose memory is watched.
"""

from __future__ import annotations

import os
import random
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from headwater.client.log import Log
from tests.edges.http.reading import values
from tests.edges.running import Process, process, until

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
CONNECTIONS = 20_000 if SOAK else 400
AT_ONCE = 200 if SOAK else 40
HELD = 2000 if SOAK else 200
"""Connections that stay open with half a request."""
GROWTH_BYTES_MAX = 150 * 1024**2
SEED = int(os.environ.get("HEADWATER_SEED", "0")) or random.SystemRandom().randrange(2**32)
_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
Shape = Callable[[random.Random, str], bytes]


def head(topic: str, *lines: str, method: str = "POST", path: str = "") -> bytes:
    told = [f"{method} {path or f'/topics/{topic}'} HTTP/1.1", "Host: 127.0.0.1", *lines]
    return "\r\n".join(told).encode("latin-1") + b"\r\n\r\n"


def half_head(chance: random.Random, topic: str) -> bytes:
    whole = head(topic, "Content-Length: 3")
    return whole[: chance.randrange(len(whole))]


def half_body(chance: random.Random, topic: str) -> bytes:
    return head(topic, "Content-Length: 1000") + b"x" * chance.randrange(1000)


def trailers(chance: random.Random, topic: str) -> bytes:
    more = b"".join(b"X-%d: %s\r\n" % (n, b"t" * 1000) for n in range(chance.randrange(300)))
    return head(topic, "Transfer-Encoding: chunked") + b"1\r\nx\r\n0\r\n" + more + b"\r\n"


def in_a_row(chance: random.Random, topic: str) -> bytes:
    return head(topic, method="GET", path="/healthz") * chance.randrange(1, 200)


def bad_chunks(chance: random.Random, topic: str) -> bytes:
    size = chance.choice([b"-1", b"fffffffffffffffff", b"zz", b"", b"0x5", b"5;" + b"e" * 70_000])
    return head(topic, "Transfer-Encoding: chunked") + size + b"\r\nhello\r\n0\r\n\r\n"


def two_lengths(chance: random.Random, topic: str) -> bytes:
    other = chance.choice(["Content-Length: 5", "Content-Length: -1", "Transfer-Encoding: chunked"])
    return head(topic, "Content-Length: 4", other) + b"0\r\n\r\nGET /healthz HTTP/1.1\r\n\r\n"


def bad_upgrade(chance: random.Random, topic: str) -> bytes:
    lines = ["Connection: Upgrade", f"Upgrade: {chance.choice(['websocket', 'h2c', 'x'])}"]
    if chance.random() < 0.5:
        lines += ["Sec-WebSocket-Version: 99", "Sec-WebSocket-Key: bad"]
    return head(topic, *lines, method="GET") + chance.randbytes(50)


def flood(chance: random.Random, topic: str) -> bytes:
    lines = [f"X-{n}: {'v' * chance.randrange(200)}" for n in range(chance.randrange(5000))]
    return head(topic, *lines, method="GET")


def noise(chance: random.Random, topic: str) -> bytes:
    return chance.randbytes(chance.randrange(1, 5000))


def mutated(chance: random.Random, topic: str) -> bytes:
    whole = bytearray(head(topic, "Content-Length: 2", "Content-Type: application/json") + b"{}")
    for _ in range(chance.randrange(1, 6)):
        whole[chance.randrange(len(whole) - 2)] = chance.randrange(256)
    return bytes(whole)


SHAPES: tuple[Shape, ...] = (
    half_head,
    half_body,
    trailers,
    in_a_row,
    bad_chunks,
    two_lengths,
    bad_upgrade,
    flood,
    noise,
    mutated,
)


def attack(port: int, topic: str, number: int) -> list[int]:
    """What was answered to one connection."""
    chance = random.Random(f"{SEED}-{number}")
    sent = chance.choice(SHAPES)(chance, topic)
    said = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            for begin in range(0, len(sent), max(1, len(sent) // chance.randrange(1, 5))):
                connection.sendall(sent[begin : begin + max(1, len(sent) // 4)])
            if chance.random() < 0.5:
                connection.shutdown(socket.SHUT_WR)
            connection.settimeout(chance.choice([0.01, 1.0]))
            while more := connection.recv(65536):
                said = (said + more)[-200_000:]
    except OSError:
        pass  # closed by the other side, or slower than this one waits
    return [int(each) for each in _STATUS.findall(said)]


class Bystander:
    """Sends record after record as a decent client does, until told to end."""

    def __init__(self, url: str) -> None:
        self.url, self.sent, self.times, self.wrong = url, 0, [0.0], ""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Bystander:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(120)

    def _run(self) -> None:
        with httpx.Client(timeout=60) as client:
            while not self._end.is_set() and not self.wrong:
                began = time.perf_counter()
                said = client.post(self.url, json={"n": self.sent})
                self.times.append(time.perf_counter() - began)
                self.wrong = "" if said.status_code == 200 else said.text
                self.sent += not self.wrong

    def p99_ms(self) -> float:
        return sorted(self.times)[int(len(self.times) * 0.99)] * 1000


def resident(running: Process) -> int:
    """Bytes of memory of the edges' process."""
    assert running._child is not None
    pages = int(Path(f"/proc/{running._child.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(3600 if SOAK else 900)
def test_raw_http_breaks_nothing_and_harms_no_bystander(
    tmp_path: Path, log: Log, topic: Callable[..., str]
):
    print(f"HEADWATER_SEED={SEED}")
    theirs, decent = topic(), topic()
    with process(tmp_path, "[edges.limits]\nslow_seconds = 5\n", log.bootstrap) as running:
        until(lambda: httpx.post(f"{running.url}/topics/{decent}", json={}).is_success, "a post")
        before = resident(running)
        with Bystander(f"{running.url}/topics/{decent}") as bystander:
            held = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(HELD)]
            for each in held:
                each.sendall(b"POST /topics/x HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half: ")
            with ThreadPoolExecutor(AT_ONCE) as threads:
                numbers = range(CONNECTIONS)
                answers = list(
                    threads.map(lambda number: attack(running.port, theirs, number), numbers)
                )
            for each in held:
                each.settimeout(60)
                assert each.recv(65536)[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 408", b"")
                each.close()
        growth = resident(running) - before
        said = Counter(status for each in answers for status in each)
        print(f"{dict(said)}; memory {growth / 1024**2:+.0f} MiB; p99 {bystander.p99_ms():.0f} ms")
        assert not bystander.wrong
        assert bystander.sent
        assert len(values(log, decent)) == bystander.sent + 1
        assert not [status for status in said if status >= 500]
        assert said[200], "none of the shapes was understood"
        assert growth < GROWTH_BYTES_MAX
        assert "Traceback" not in running.told()
