"""A continuous load of inserts, updates and deletes with a seed, and what views of it must be."""

from __future__ import annotations

import json
import random
import threading
from typing import Any

from confluent_kafka import Producer

KEYS = 300


class Load:
    """Sends changes to one topic from a thread of its own until told to stop."""

    def __init__(self, bootstrap: str, topic: str, seed: int) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 5})
        self._topic = topic
        self._random = random.Random(seed)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load")
        self.rows: dict[int, dict[str, Any]] = {}
        self.sent = 0
        self.changes: list[tuple[int, int | None]] = []
        """Every change: its number, and the key it was of, None for a tombstone."""

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        while not self._stop.wait(0.05):  # about a hundred changes a second
            for _ in range(self._random.randrange(9)):
                self._change()
            self._producer.poll(0)

    def _change(self) -> None:
        key = self._random.randrange(KEYS)
        name = json.dumps({"id": key})
        before = self.rows.get(key)
        if before is not None and self._random.random() < 0.3:
            del self.rows[key]
            self._send(name, {"op": "d", "before": before, "after": None})
            self._producer.produce(self._topic, key=name, value=None)
            self.sent += 1
            return
        row = {"id": key, "n": self.sent, "note": self._random.choice(["a", "ü", None, "x'\"\\"])}
        self.rows[key] = row
        op = "u" if before is not None else "c"
        self._send(name, {"op": op, "before": before, "after": row})

    def _send(self, key: str, value: dict[str, Any]) -> None:
        self._producer.produce(self._topic, key=key, value=json.dumps(value))
        self.sent += 1
