"""kill -9 of the edges while deliveries are under way: nothing is lost, and no key's order is changed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.client import groups
from headwater.client.log import Log
from tests.edges.running import process, until
from tests.edges.webhooks.receiver import SECRET, Request, receiver

KEYS, EACH, KILLS = 12, 15, 2
DOCUMENT = """
[edges.webhooks.{name}]
from = "topic:{name}"
to = "{url}"
secret = "${{HOOK_SECRET}}"
start = "beginning"
allow_private = true
parallel = 8
timeout_s = 60
"""


class Gate:
    """Lets so many requests pass, and keeps all others until it is opened."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._passes, self.kept = 0, 0

    def close(self, passes: int) -> None:
        with self._changed:
            self._passes = passes

    def open(self) -> None:
        self.close(1_000_000)
        with self._changed:
            self._changed.notify_all()

    def answer(self, _request: Request) -> int:
        with self._changed:
            self.kept += 1
            self._changed.wait_for(lambda: self._passes > 0, timeout=60)
            self.kept -= 1
            self._passes -= 1
        return 200


def test_a_kill_with_deliveries_under_way_loses_and_reorders_nothing(
    log: Log, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    name, gate = topic(partitions=3), Gate()
    producer = log.new_producer()
    for number in range(EACH):
        for key in range(KEYS):
            producer.produce(name, b"%d" % number, b"key-%d" % key)
    assert producer.flush(60) == 0
    with receiver(gate.answer) as got:
        gate.close(40)
        with process(tmp_path, DOCUMENT.format(name=name, url=got.url), log.bootstrap) as running:
            for kill in range(KILLS):
                until(lambda: gate.kept >= 8, "requests under way")
                running.kill()
                gate.open()  # these were received, and nobody heard that they were
                until(lambda: gate.kept == 0, "their end")
                gate.close(40 if kill + 1 < KILLS else 1_000_000)
                running.start()
            until(lambda: _is_all_committed(log, name), "the end")
        arrived: dict[str, list[int]] = {}
        with got.lock:
            for request in got.got:
                arrived.setdefault(request.key, []).append(int(request.body))
    assert len(arrived) == KEYS
    for key, numbers in arrived.items():
        assert numbers == sorted(numbers), f"{key} came as {numbers}"
        assert sorted(set(numbers)) == list(range(EACH)), f"{key} lacks some"
    repeated = sum(map(len, arrived.values())) - KEYS * EACH
    assert 1 <= repeated <= KILLS * KEYS  # what was under way, once more


def _is_all_committed(log: Log, name: str) -> bool:
    found = groups.named(log, f"headwater.webhook.{name}").partitions
    own = [each for each in found if each.topic == name]
    return len(own) == 3 and all(each.lag == 0 for each in own)
