"""kill -9 of the edges while senders post: what was answered is there, and each thing once."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import httpx

from headwater.client.log import Log
from tests.edges.http.reading import values
from tests.edges.running import Process, process, until

SENDERS = 4
PATIENCE_S = 90


class Sender(threading.Thread):
    """Posts pairs of records until it is told to stop, each until it is answered with 200."""

    def __init__(self, edges: Process, topic: str, number: int) -> None:
        super().__init__(name=f"sender {number}")
        self._edges, self._topic, self._number = edges, topic, number
        self.stopped = threading.Event()
        self.answered: list[int] = []
        self.replayed = 0
        self.failed: list[str] = []

    def run(self) -> None:
        with httpx.Client(base_url=self._edges.url, timeout=30) as http:
            while not self.stopped.is_set() and not self.failed:
                self._post(http, self._number * 1_000_000 + len(self.answered))

    def _post(self, http: httpx.Client, number: int) -> None:
        lines = "".join(json.dumps({"n": number, "half": half}) + "\n" for half in (0, 1))
        kind = {"Content-Type": "application/x-ndjson", "Idempotency-Key": f"n{number}"}
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                answer = http.post(f"/topics/{self._topic}", content=lines, headers=kind)
            except httpx.TransportError:
                time.sleep(0.02)  # between two attempts: there is nobody yet
                continue
            if answer.status_code == 200:
                self.answered.append(number)
                self.replayed += "idempotent-replay" in answer.headers
                return
            if answer.status_code != 503:
                break
        self.failed.append(f"{number} was not taken")


def test_every_pair_is_stored_once_and_whole_whenever_the_edges_are_killed(
    log: Log, topic: Callable[..., str], tmp_path: Path
):
    name = topic(2)
    with process(tmp_path, f'name = "{name}"\n', log.bootstrap) as edges:
        senders = [Sender(edges, name, number) for number in range(SENDERS)]
        for sender in senders:
            sender.start()
        try:
            for wanted in (20, 40, 60):
                until(
                    lambda wanted=wanted: (  # type: ignore[misc]
                        any(each.failed for each in senders)
                        or sum(len(each.answered) for each in senders) >= wanted
                    ),
                    "some answers",
                    PATIENCE_S,
                )
                if wanted < 60:
                    edges.kill()
                    edges.start()
        finally:
            for sender in senders:
                sender.stopped.set()
            for sender in senders:
                sender.join()
    assert [each.failed for each in senders] == [[]] * SENDERS
    sent = [number for each in senders for number in each.answered]
    stored = Counter(
        (row["n"], row["half"]) for row in map(json.loads, filter(None, values(log, name)))
    )
    assert stored == Counter((number, half) for number in sent for half in (0, 1))
