"""Many who log in at once with PLAIN: all are checked, and nobody is refused for want of a place."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from headwater import fair_queue
from headwater.testing import broker
from tests.compat.wire import ConnectionClosed, ErrorCode, Wire, connected

LINE = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_paul="secret-of-p";'
SETTINGS = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": LINE,
}
TOKEN = b"\0paul\0secret-of-p"


def shaking(stack: ExitStack, address: str, count: int) -> list[Wire]:
    wires = [stack.enter_context(connected(address)) for _ in range(count)]
    for wire in wires:
        wire.ask("sasl_handshake", 1, mechanism="PLAIN")
    return wires


def test_many_clients_of_one_address_with_the_right_password_all_get_in(tmp_path: Path) -> None:
    """As after a restart, or behind one NAT: Kafka's clients take a refusal for final."""
    with broker(tmp_path, SETTINGS, listen=None) as server, ExitStack() as stack:
        wires = shaking(stack, server.bootstrap, 60)
        for wire in wires:
            wire.send("sasl_authenticate", 2, auth_bytes=TOKEN)
        codes = [wire.receive()[1].error_code for wire in wires]
        assert codes.count(ErrorCode.none) == 60


def test_who_finds_no_place_is_not_told_that_the_password_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fair_queue, "WAITING_MAX", 1)
    with broker(tmp_path, SETTINGS, listen=None) as server, ExitStack() as stack:
        wires = shaking(stack, server.bootstrap, 30)
        for wire in wires:
            wire.send("sasl_authenticate", 2, auth_bytes=TOKEN)
        heard = [_answer(wire) for wire in wires]
        assert set(heard) <= {ErrorCode.none, None}
        assert ErrorCode.none in heard and None in heard


def _answer(wire: Wire) -> ErrorCode | None:
    """None: the connection ended."""
    try:
        found: ErrorCode = wire.receive()[1].error_code
    except ConnectionClosed:
        return None
    return found
