"""A key that was destroyed is gone everywhere, also where nobody looked while its tombstone was there."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from headwater import testing
from headwater.broker.broker import Broker
from headwater.client.cluster import Cluster
from headwater.events import options as clients
from headwater.events import partition_reader
from headwater.events.key_topic import TOPIC
from headwater.events.keys import Keys
from headwater.testing import ManualClock
from tests.events.test_application import wait_until

HOUR_MS = 3_600_000
CLEANING: dict[str, object] = {
    "log.cleaner.enable": True,
    "log.cleaner.backoff.ms": 20,
    "log.message.timestamp.type": "LogAppendTime",  # segments are as old as the broker's clock says
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(time.time_ns() // 1_000_000)


@pytest.fixture
def broker(clock: ManualClock) -> Iterator[Broker]:
    with testing.broker(settings=CLEANING, clock=clock) as found:
        yield found


def subjects_in(bootstrap: str) -> set[bytes]:
    """Whose keys, or tombstones, the topic still has."""
    cluster = Cluster(clients.for_cluster(bootstrap))
    try:
        first, end = partition_reader.ends(cluster, (TOPIC, 0))
        pieces = partition_reader.pieces(cluster, (TOPIC, 0), first, end)
        return {(r.key or b"").split(b"\0")[0] for piece in pieces for r in piece}
    finally:
        cluster.close()


def compact_away(subject: str, others: Keys, bootstrap: str, clock: ManualClock) -> None:
    """Days pass, in which others make keys, until nothing says that this subject ever was."""
    days = itertools.count()

    def gone() -> bool:
        clock.advance(26 * HOUR_MS)
        others.seal(f"made {next(days)} days after {subject}", "text")  # begins a new segment
        return subject.encode() not in subjects_in(bootstrap)

    wait_until(gone)


def test_a_process_that_idles_past_the_tombstone_has_forgotten_too(
    broker: Broker, clock: ManualClock
):
    bootstrap = broker.bootstrap
    with Keys(bootstrap, refresh_s=0) as idle, Keys(bootstrap, refresh_s=0) as busy:
        sealed, bobs = idle.seal("alice", "secret"), idle.seal("bob", "stays")
        assert busy.reveal(sealed) == "secret"
        busy.forget("alice")
        compact_away("alice", busy, bootstrap, clock)
        assert idle.reveal(sealed) is None
        assert idle.reveal(bobs) == "stays"


def test_what_it_seals_then_can_be_read_by_everybody(broker: Broker, clock: ManualClock):
    bootstrap = broker.bootstrap
    with Keys(bootstrap, refresh_s=0) as idle, Keys(bootstrap, refresh_s=0) as busy:
        idle.seal("alice", "secret")
        busy.forget("alice")
        compact_away("alice", busy, bootstrap, clock)
        sealed = idle.seal("alice", "somebody new")
        assert busy.reveal(sealed) == "somebody new"


def test_a_record_that_is_no_key_takes_nobodys_key_away(broker: Broker):
    with Keys(broker.bootstrap, refresh_s=0) as keys:
        sealed = keys.seal("alice", "secret")
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for key, value in (
            (b"\xff\xfe", b"x"),
            (b"bob", b"x"),
            (b"bob\0id", b"\xffno base64"),
            (b"", b""),
        ):
            producer.produce(TOPIC, value, key, 0)
        assert producer.flush(30) == 0
        assert keys.reveal(sealed) == "secret"
        assert keys.reveal(keys.seal("bob", "too")) == "too"
    with Keys(broker.bootstrap) as others:
        assert others.reveal(sealed) == "secret"


def test_an_idle_process_that_missed_nothing_keeps_its_keys(broker: Broker, clock: ManualClock):
    bootstrap = broker.bootstrap
    with Keys(bootstrap, refresh_s=0) as idle, Keys(bootstrap, refresh_s=0) as busy:
        sealed = idle.seal("bob", "stays")
        for n in range(3):
            busy.seal(f"somebody {n}", "text")
            busy.forget(f"somebody {n}")
            compact_away(f"somebody {n}", busy, bootstrap, clock)
            assert idle.reveal(sealed) == busy.reveal(sealed) == "stays"
