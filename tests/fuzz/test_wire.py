"""Thousands of mutated requests of every API and version, while others are served.

The broker must stay up, its memory bounded, its answers to an honest client right and in time, and it
must not meet an error of its own. HEADWATER_SEED repeats a run's choices; HEADWATER_SOAK=1 runs longer,
with other choices each time.
"""

from __future__ import annotations

import os
import random
import socket
import struct
from pathlib import Path

import pytest

from headwater.project.ports import free_port
from tests.broker.processes import broker_process
from tests.fuzz.attack import Attack
from tests.fuzz.trial import known_requests, tracebacks, under_attack

SOAK = os.environ.get("HEADWATER_SOAK") == "1"
COUNT = 1_000_000 if SOAK else 100_000
"""Looked at; more than twice as many are sent: what follows a wrong one goes with its connection."""
COUNT_SECURED = 300_000 if SOAK else 3000
SETTINGS = (
    "group.min.session.timeout.ms=1",
    "log.segment.delete.delay.ms=0",
    "log.retention.check.interval.ms=1000",
    "log.cleaner.backoff.ms=500",
)
USER, PASSWORD = "fuzz", "a-Secret-in-a-file"
JAAS = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'


@pytest.fixture
def seed() -> int:
    usual = random.SystemRandom().randrange(2**32) if SOAK else 2026
    return int(os.environ.get("HEADWATER_SEED") or usual)


@pytest.mark.timeout(7200 if SOAK else 900)
def test_the_broker_survives_mutated_requests(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with broker_process(tmp_path / "data", *SETTINGS) as broker:
        known, corpus = known_requests(broker, random.Random(seed))
        attack = Attack(broker.bootstrap, corpus, known, seed, COUNT)
        under_attack(broker, attack, corpus, seed, capsys)


@pytest.mark.timeout(3600 if SOAK else 900)
def test_so_does_one_with_users_and_rules(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Once by strangers, who may only log in, and once by somebody who is in and may do nothing."""
    inside, outside = free_port(), free_port()
    secured = (
        f"listeners=PLAINTEXT://127.0.0.1:{inside},SASL_PLAINTEXT://127.0.0.1:{outside}",
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:ANONYMOUS",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        "connection.failed.authentication.delay.ms=0",
        f"listener.name.sasl_plaintext.plain.sasl.jaas.config={JAAS}",
    )
    with broker_process(tmp_path / "data", *SETTINGS, *secured, listen=False) as broker:
        known, corpus = known_requests(broker, random.Random(seed))
        door = f"127.0.0.1:{outside}"
        attack = Attack(door, corpus, known, seed, COUNT_SECURED)
        under_attack(broker, attack, corpus, seed, capsys, " of strangers", "bystander-1")
        attack = Attack(door, corpus, known, seed, COUNT_SECURED, _log_in)
        under_attack(broker, attack, corpus, seed, capsys, " of a user", "bystander-2")


def _log_in(connection: socket.socket) -> None:
    mechanism, token = b"PLAIN", f"\0{USER}\0{PASSWORD}".encode()
    _ask(connection, struct.pack(">hhihh", 17, 1, 1, -1, len(mechanism)) + mechanism)
    _ask(connection, struct.pack(">hhihi", 36, 1, 2, -1, len(token)) + token)


def _ask(connection: socket.socket, request: bytes) -> None:
    connection.sendall(struct.pack(">i", len(request)) + request)
    with connection.makefile("rb", buffering=0) as answers:
        (size,) = struct.unpack(">i", answers.read(4))
        answer = answers.read(size)
    assert answer[4:6] == b"\0\0", f"not logged in: {answer!r}"


def test_an_error_of_ours_in_the_log_is_noticed() -> None:
    said = (
        "2026-01-01 00:00:00,000 ERROR headwater.broker Fetch version 4 failed\n"
        "Traceback (most recent call last):\n  File x\n  raise\nKeyError: 1\n"
        "2026-01-01 00:00:00,000 WARNING headwater.broker closing the connection\n"
    )
    (piece,) = tracebacks(said + said).values()
    assert piece.endswith("KeyError: 1")
    assert tracebacks("2026-01-01 00:00:00,000 WARNING closing the connection\n") == {}
