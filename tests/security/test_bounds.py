"""What somebody who has not logged in can cost: a bounded amount of memory and time."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from pathlib import Path

import psutil

from headwater.broker import connection
from headwater.testing import broker
from tests.broker.serving import create
from tests.compat.batches import batch
from tests.compat.waiting import AT_ONCE_SECONDS, until
from tests.compat.wire import ConnectionClosed, Wire, connected
from tests.security.scram_client import first, give_password, log_in
from tests.security.servers import Secured

SASL = "SASL_PLAINTEXT"


def is_closed(wire: Wire) -> bool:
    with contextlib.suppress(ConnectionClosed):
        wire.receive_bytes()
        return False
    return True


def test_a_frame_beyond_the_bound_of_strangers_is_refused_on_its_first_bytes(secured):
    with connected(secured.listeners[SASL]) as wire:
        wire.send_unframed(struct.pack(">i", 600 * 1024))
        assert is_closed(wire)


def test_a_token_beyond_the_bound_is_refused(secured):
    with connected(secured.listeners[SASL]) as wire:
        wire.ask("sasl_handshake", 1, mechanism="PLAIN")
        wire.send_unframed(struct.pack(">i", 50_000_000) + bytes(1000))
        assert is_closed(wire)


def test_many_strangers_with_half_frames_cost_little_memory_and_no_time(ours: Secured):
    process = _process_of(ours)
    before = process.memory_info().rss
    host, _, port = ours.listeners[SASL].rpartition(":")
    with contextlib.ExitStack() as stack:
        for _ in range(200):
            each = stack.enter_context(socket.create_connection((host, int(port))))
            each.sendall(struct.pack(">i", 500 * 1024) + bytes(20_000))
        with ours.admin() as wire:
            started = time.monotonic()
            assert wire.ask("metadata", 9, topics=[]).brokers
            assert time.monotonic() - started < AT_ONCE_SECONDS
        grown = process.memory_info().rss - before
    assert grown < 200 * 128 * 1024, grown


def test_strangers_who_announce_much_take_nothing_from_those_who_have_logged_in(tmp_path: Path):
    limit = 16 * 1024 * 1024
    settings = {**SETTINGS, "listeners": LISTENERS, "queued.max.request.bytes": limit}
    with broker(tmp_path, settings, listen=None) as server, contextlib.ExitStack() as stack:
        outside, inside = (each.bootstrap for each in server.socket_server.listeners)
        host, _, port = outside.rpartition(":")
        for _ in range(60):
            each = stack.enter_context(socket.create_connection((host, int(port))))
            each.sendall(struct.pack(">i", 500_000) + bytes(10))
        until(lambda: server.memory.is_waited_for, "strangers that wait for room")
        used = dict(server.memory.used)
        assert 0 < used["logins"] <= limit // 16
        assert not used.get("frames")
        wire = stack.enter_context(connected(inside))
        create(wire, "t")
        rows = [{"index": 0, "records": batch([(None, bytes(100_000))])}]
        topics = [{"name": "t", "partition_data": rows}]
        answer = wire.ask("produce", 9, acks=-1, timeout=30_000, topic_data=topics)
        assert answer.responses[0].partition_responses[0].error_code == 0


def test_requests_behind_an_unfinished_login_are_not_read(ours: Secured):
    """A stranger cannot fill the inbox: one step at a time is taken from what it sends."""
    with connected(ours.listeners[SASL]) as wire:
        wire.send("sasl_handshake", 1, mechanism="PLAIN")
        for _ in range(5):
            wire.send("sasl_authenticate", 2, auth_bytes=b"\0nobody\0wrong")
        assert wire.receive()[1].error_code == 0
        assert wire.receive()[1].error_code == 58
        assert is_closed(wire)


def _process_of(server: Secured) -> psutil.Process:
    port = int(server.bootstrap.rpartition(":")[2])
    for child in psutil.Process(os.getpid()).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(c.laddr.port == port and c.status == "LISTEN" for c in child.net_connections()):
                return child
    raise AssertionError("the broker's process was not found")


LISTENERS = "SASL_PLAINTEXT://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
SETTINGS = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}


def test_who_has_not_logged_in_in_time_is_dropped(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(connection, "LOGIN_SECONDS", 0.3)
    settings = {**SETTINGS, "listeners": LISTENERS}
    with broker(tmp_path, settings, listen=None) as server, connected(server.bootstrap) as wire:
        wire.ask("sasl_handshake", 1, mechanism="SCRAM-SHA-256")
        wire.ask("sasl_authenticate", 2, auth_bytes=first("ann", "nonce"))
        assert is_closed(wire)


def test_a_login_ends_when_the_settings_say_so_and_can_be_renewed(tmp_path: Path):
    settings = {**SETTINGS, "listeners": LISTENERS, "connections.max.reauth.ms": 1500}
    with broker(tmp_path, settings, listen=None) as server:
        plain = server.socket_server.listeners[1].bootstrap
        with connected(plain) as wire:
            for user in ("ann", "bob"):
                assert give_password(wire, "SCRAM-SHA-256", user, "pw") == 0
        with connected(server.bootstrap) as wire:
            answer = log_in(wire, "SCRAM-SHA-256", "ann", "pw")
            assert answer.session_lifetime.total_seconds() == 1.5
            # too early: Kafka lets nobody log in again within a second
            assert wire.ask("sasl_handshake", 1, mechanism="SCRAM-SHA-256").error_code == 34
            until(lambda: _may_again(wire), "a second to pass")
            assert _tokens(wire, "ann", "pw").error_code == 0
            assert wire.ask("metadata", 9, topics=[]).brokers
            until(lambda: _is_over(wire), "the login to end")
        with connected(server.bootstrap) as wire:
            log_in(wire, "SCRAM-SHA-256", "ann", "pw")
            until(lambda: _may_again(wire), "a second to pass")
            assert _tokens(wire, "bob", "pw").error_code == 58  # nobody becomes somebody else


def _may_again(wire: Wire) -> bool:
    return wire.ask("sasl_handshake", 1, mechanism="SCRAM-SHA-256").error_code == 0


def _tokens(wire: Wire, user: str, password: str):
    from tests.security.scram_client import final

    begin = first(user, "again")
    answer = wire.ask("sasl_authenticate", 2, auth_bytes=begin)
    end = final("SCRAM-SHA-256", password, begin, answer.auth_bytes)
    return wire.ask("sasl_authenticate", 2, auth_bytes=end)


def _is_over(wire: Wire) -> bool:
    try:
        wire.ask("metadata", 9, topics=[])
    except (ConnectionClosed, BrokenPipeError):
        return True
    return False
