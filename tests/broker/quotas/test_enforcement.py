"""Quotas on a real broker: who is held back, for how long, and who is not."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.broker.serving import Serving, serving
from tests.compat.asking import produce
from tests.compat.batches import batch
from tests.compat.waiting import until
from tests.compat.wire import ErrorCode, Wire

WIRE = {"client-id": "wire"}
SHORT = {"quota.window.num": 3}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Serving]:
    with serving(tmp_path / "data", SHORT) as broker:
        yield broker


def set_quota(wire: Wire, entity: dict[str, str | None], **values: float | None) -> None:
    ops = [
        {"key": key, "value": value or 0.0, "remove": value is None}
        for key, value in values.items()
    ]
    parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
    answer = wire.ask("alter_client_quotas", entries=[{"entity": parts, "ops": ops}])
    assert answer.entries[0].error_code is ErrorCode.none, answer


def send(wire: Wire, topic: str, size: int, acks: int = -1) -> float:
    """Seconds that the answer says we are throttled."""
    data = {"index": 0, "records": batch([(None, b"x" * size)])}
    values = {
        "acks": acks,
        "timeout": 9000,
        "topic_data": [{"name": topic, "partition_data": [data]}],
    }
    if not acks:
        wire.send("produce", 9, answer=False, **values)
        return 0.0
    return float(wire.ask("produce", 9, **values).throttle_time.total_seconds())


def fetch_in_session(wire: Wire, topic: str, session: int, epoch: int, offset: int = 0) -> Any:
    row = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 20_000}
    row |= {"current_leader_epoch": -1, "last_fetched_epoch": -1, "log_start_offset": -1}
    return wire.ask(
        "fetch",
        12,
        replica_id=-1,
        max_wait=0,
        min_bytes=1,
        max_bytes=10_000_000,
        session_id=session,
        session_epoch=epoch,
        topics=[{"topic": topic, "partitions": [row]}],
    )


def test_a_connection_is_silent_for_as_long_as_it_was_told(served: Serving) -> None:
    served.create("t")
    with served.wire() as wire, served.wire() as other:
        set_quota(other, WIRE, producer_byte_rate=10_000.0)
        assert send(wire, "t", 5000) == 0
        begin = time.monotonic()
        throttled = send(wire, "t", 20_000)
        assert throttled > 0
        wire.ask("api_versions", 0)
        assert time.monotonic() - begin >= throttled * 0.9

        def silent_while_the_other_is_answered() -> bool:
            if not send(wire, "t", 20_000):
                return False
            wire.send("api_versions", 0)
            other.ask("api_versions", 0)
            waiting = select.poll()
            waiting.register(wire._socket, select.POLLIN)
            silent = not waiting.poll(0)
            wire.receive()
            return silent

        until(silent_while_the_other_is_answered, "the other not to be held back")


def test_who_wants_no_answer_is_held_back_all_the_same(served: Serving) -> None:
    served.create("t")
    with served.wire() as wire, served.wire() as other:
        set_quota(other, WIRE, producer_byte_rate=10_000.0)
        begin = time.monotonic()
        send(wire, "t", 25_000, acks=0)
        wire.ask("api_versions", 0)
        assert time.monotonic() - begin > 0.1


def test_a_quota_is_shared_by_all_connections_of_its_owner(served: Serving) -> None:
    served.create("t")
    with served.wire() as one, served.wire() as two:
        set_quota(one, {"user": "ANONYMOUS"}, producer_byte_rate=10_000.0)
        assert send(one, "t", 15_000) == 0
        assert send(two, "t", 15_000) > 0


def test_a_quota_that_is_gone_holds_nobody_back(served: Serving) -> None:
    served.create("t")
    with served.wire() as wire:
        set_quota(wire, WIRE, producer_byte_rate=10_000.0)
        set_quota(wire, WIRE, producer_byte_rate=None)
        assert not served.call(lambda: served.broker.quotas.active)
        assert send(wire, "t", 90_000) == 0


def test_quotas_survive_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path / "data", SHORT) as served:
        served.create("t")
        with served.wire() as wire:
            set_quota(wire, WIRE, producer_byte_rate=10_000.0)
    with serving(tmp_path / "data", SHORT) as served, served.wire() as wire:
        assert send(wire, "t", 30_000) > 0


def test_a_session_goes_on_after_it_was_throttled(served: Serving) -> None:
    served.create("t")
    with served.wire() as wire:
        for _ in range(4):
            produce(wire, "t", batch([(None, b"x" * 15_000)]))
        set_quota(wire, WIRE, consumer_byte_rate=16_000.0)
        first = fetch_in_session(wire, "t", 0, 0)
        assert first.session_id
        assert first.responses
        epoch, offset, throttled = 1, 1, 0
        while offset < 4:
            answer = fetch_in_session(wire, "t", first.session_id, epoch, offset)
            assert (answer.error_code, answer.session_id) == (0, first.session_id)
            epoch += 1
            offset += len(answer.responses)
            throttled += not answer.responses
        assert throttled


def test_a_session_that_could_not_begin_is_not_kept(served: Serving) -> None:
    served.create("t")
    with served.wire() as wire:
        for _ in range(3):
            produce(wire, "t", batch([(None, b"x" * 15_000)]))
        set_quota(wire, WIRE, consumer_byte_rate=10_000.0)
        answers = [fetch_in_session(wire, "t", 0, 0) for _ in range(3)]
        held_back = [each for each in answers if not each.responses]
        assert held_back
        assert all(each.session_id == 0 and each.throttle_time for each in held_back)
        kept = served.call(lambda: len(served.broker.sessions._sessions))
        assert kept == len(answers) - len(held_back)


def test_a_batch_larger_than_its_quota_comes_in_the_end(served: Serving) -> None:
    served.create("t")
    with served.wire() as wire:
        produce(wire, "t", batch([(None, b"x" * 15_000)]))
        set_quota(wire, WIRE, consumer_byte_rate=1000.0)
        answer = fetch_in_session(wire, "t", 0, -1)
        assert answer.responses
        assert answer.throttle_time.total_seconds() > 1


def test_connections_that_come_too_early_are_closed_but_not_at_once(served: Serving) -> None:
    host, _, port = served.bootstrap.rpartition(":")
    with served.wire() as wire:
        set_quota(wire, {"ip": "127.0.0.1"}, connection_creation_rate=1.0)
        begin = time.monotonic()
        opened = [socket.create_connection((host, int(port)), timeout=60) for _ in range(4)]
        assert opened[-1].recv(1) == b""
        assert time.monotonic() - begin > 0.1
        for each in opened:
            each.close()
        set_quota(wire, {"ip": "127.0.0.1"}, connection_creation_rate=None)
        with served.wire() as other:
            assert other.ask("api_versions", 0).api_keys


def test_what_a_client_is_measured_by_is_short_however_long_its_name(served: Serving) -> None:
    """A client id may have 32 KB, and ten thousand meters are kept."""
    quotas = served.broker.quotas

    def charged() -> float:
        for number in range(200):
            wait = quotas.charge("User:u", f"{number}" + "x" * 30_000, 0, (100, 0), 0.0)
            assert wait.throttle_ms == 0
        again = quotas.charge("User:u", "7" + "x" * 30_000, 0, (900_000, 0), 0.0)
        other = quotas.charge("User:u", "7" + "x" * 29_999, 0, (100, 0), 0.0)
        quotas.mutate("User:u", "8" + "x" * 30_000, 1)
        assert again.throttle_ms > 0, "it is known again"
        assert other.throttle_ms == 0, "another has a meter of its own"
        return sum(len(part) for name in quotas._meters for part in name)

    with served.wire() as wire:
        limits = {"producer_byte_rate": 10_000.0, "controller_mutation_rate": 5.0}
        set_quota(wire, {"client-id": None}, **limits)
        assert served.call(charged) < 202 * 200
