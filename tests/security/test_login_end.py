"""A login that ends (connections.max.reauth.ms, a token's end) ends what was asked for in its name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.testing import broker
from tests.broker.serving import create
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ConnectionClosed, Wire, connected
from tests.security.scram_client import final as final_token
from tests.security.scram_client import first, give_password, log_in

MECHANISM = "SCRAM-SHA-256"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": MECHANISM,
    "connections.max.reauth.ms": 1500,
}
TOPIC = "read"


@pytest.fixture
def listeners(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Where logins end, and where nobody has to log in."""
    with broker(tmp_path, SETTINGS, listen=None) as server:
        secured, plain = (each.bootstrap for each in server.socket_server.listeners)
        with connected(plain) as wire:
            assert give_password(wire, MECHANISM, "ann", "pw") == 0
            create(wire, TOPIC)
        yield secured, plain


def test_nothing_is_read_for_a_login_that_has_ended_however_early_it_was_asked_for(listeners):
    secured, plain = listeners
    with connected(secured) as early, connected(secured) as late:
        log_in(early, MECHANISM, "ann", "pw")
        for offset in range(4):  # of what others are going to write
            early.send("fetch", 12, **waiting(offset, max_wait_ms=2**31 - 1))
        log_in(late, MECHANISM, "ann", "pw")
        until(lambda: has_ended(late), "the later login to end")
        with connected(plain) as wire:
            for _ in range(5):
                wire.ask("produce", 9, **one_record())
        with pytest.raises(ConnectionClosed):
            early.receive()


def test_what_was_sent_in_time_and_begins_after_the_end_is_not_begun(listeners):
    secured, plain = listeners
    with connected(secured) as wire:
        log_in(wire, MECHANISM, "ann", "pw")
        wire.send("fetch", 12, **waiting(0, max_wait_ms=2**31 - 1))
        wire.send("produce", 9, **one_record())
        with pytest.raises(ConnectionClosed):
            wire.receive()
    with connected(plain) as wire:
        asked = {"topic": TOPIC, "partitions": [{"partition": 0, "fetch_offset": 0}]}
        answer = wire.ask("fetch", 12, session_epoch=-1, max_bytes=1000, topics=[asked])
        assert answer.responses[0].partitions[0].high_watermark == 0


def test_a_login_is_renewed_behind_a_fetch_that_waits(listeners):
    with connected(listeners[0]) as wire:
        log_in(wire, MECHANISM, "ann", "pw")
        wire.send("fetch", 12, **waiting(0, max_wait_ms=2500))
        wire.send("sasl_handshake", 1, mechanism=MECHANISM)  # its turn comes after the end
        assert wire.receive()[1].error_code == 0
        assert wire.receive()[1].error_code == 0
        begin = first("ann", "again")
        challenge = wire.ask("sasl_authenticate", 2, auth_bytes=begin).auth_bytes
        end = final_token(MECHANISM, "pw", begin, challenge)
        assert wire.ask("sasl_authenticate", 2, auth_bytes=end).error_code == 0
        assert wire.ask("metadata", 9, topics=[]).brokers


def has_ended(wire: Wire) -> bool:
    with contextlib.suppress(ConnectionClosed, ConnectionError):
        wire.ask("metadata", 9, topics=[])
        return False
    return True


def waiting(offset: int, max_wait_ms: int) -> dict[str, Any]:
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 2**20}
    return {
        "max_wait": max_wait_ms,
        "min_bytes": 1,
        "max_bytes": 2**20,
        "session_epoch": -1,
        "topics": [{"topic": TOPIC, "partitions": [part]}],
    }


def one_record() -> dict[str, Any]:
    data = [{"index": 0, "records": batch([(None, b"later")])}]
    return {"acks": -1, "timeout": 30_000, "topic_data": [{"name": TOPIC, "partition_data": data}]}
