"""`headwater forget` is killed at any step: given again, it tells every reader, and names what it told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from itertools import count
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headwater import testing
from headwater.cli import excision
from headwater.client.cluster import Cluster
from headwater.events import erasure, partition_reader
from tests.events.test_personal import forget

NAMES = CUSTOMERS, DELETED = "customers", "deleted"


class Killed(BaseException):
    """Nothing of the command runs after it."""


class Killer:
    """Ends the command at its nth step; -1: never."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        self._bury: Callable[..., Any] = erasure.bury
        monkeypatch.setattr(excision, "_send", self._then(excision._send))
        monkeypatch.setattr(excision, "ask", self._then(excision.ask))
        monkeypatch.setattr(erasure, "bury", self._one_by_one)

    def step(self) -> None:
        if self.left == 0:
            raise Killed
        self.left -= 1

    def _then(self, done: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*words: Any) -> Any:
            found = done(*words)
            self.step()
            return found

        return stepping

    def _one_by_one(self, settings: Any, key: bytes, places: Iterable[Any]) -> Any:
        offsets: dict[Any, int] = {}
        for place in places:
            self.step()
            offsets |= self._bury(settings, key, [place])
        self.step()
        return offsets


def make_topics(bootstrap: str) -> None:
    topics = [NewTopic(name, 1, 1, config={"cleanup.policy": "compact"}) for name in NAMES]
    client = AdminClient({"bootstrap.servers": bootstrap})
    for made in client.create_topics(topics).values():
        made.result(30)


def put(bootstrap: str, subject: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for name in NAMES:
        producer.produce(name, b"Alice Liddell", subject.encode())
    producer.produce(DELETED, None, subject.encode())  # not everybody has read it yet
    assert producer.flush(30) == 0


def left_of(bootstrap: str, subject: str) -> dict[str, list[bytes | None]]:
    """The values under the subject's name, by topic."""
    with closing(Cluster({"bootstrap.servers": bootstrap})) as cluster:
        return {name: values(cluster, (name, 0), subject.encode()) for name in NAMES}


def values(cluster: Cluster, place: tuple[str, int], key: bytes) -> list[bytes | None]:
    ends = partition_reader.ends(cluster, place)
    pieces = partition_reader.pieces(cluster, place, *ends)
    return [each.value for piece in pieces for each in piece if each.key == key]


def test_a_second_run_completes_the_first_wherever_it_was_killed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    killer = Killer(monkeypatch)
    with testing.broker() as broker:
        make_topics(broker.bootstrap)
        for number in count():
            subject, was_killed = f"customer-{number}", False
            put(broker.bootstrap, subject)
            killer.left = number
            try:
                forget(capsys, broker.bootstrap, subject)
            except Killed:
                was_killed = True
            killer.left = -1
            forget(capsys, broker.bootstrap, subject)
            left = left_of(broker.bootstrap, subject)
            assert {name: found[-1:] for name, found in left.items()} == {
                name: [None] for name in NAMES
            }, number
            assert b"Alice Liddell" not in {each for found in left.values() for each in found}
            if not was_killed:
                break
    assert number > 2 * len(NAMES)
