"""A broker that stops answers its TLS clients to the end, as it does those without TLS."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.broker.serving import create, serving
from tests.compat.asking import fetch_request, produce
from tests.compat.batches import batch, read_batches
from tests.compat.waiting import LONG_MS, until
from tests.compat.wire import ConnectionClosed, ErrorCode, Wire
from tests.security.servers import Certificates
from tests.security.tls_clients import LOOPS, trusting

LARGE = 20 * 900_000


@pytest.mark.parametrize("loop_name", LOOPS)
def test_large_answers_and_those_that_wait_are_sent_to_their_end(
    tmp_path: Path, certificates: Certificates, loop_name: str
) -> None:
    settings = certificates.settings() | {"listeners": "SSL://127.0.0.1:0"}
    client = trusting(certificates.authority.certificate)
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(1) as stopping:
        running = contextlib.ExitStack()
        broker = running.enter_context(
            serving(tmp_path, settings, listen=None, new_loop=LOOPS[loop_name])
        )
        stack.callback(running.close)
        wires = [
            stack.enter_context(contextlib.closing(Wire(broker.bootstrap, tls=client)))
            for _ in range(4)
        ]
        create(wires[0], "t")
        for _ in range(20):
            assert produce(wires[0], "t", batch([(None, bytes(900_000))])).error_code == 0
        whole = {"max_bytes": LARGE * 2, "partition_max_bytes": LARGE * 2}
        for wire in wires[:2]:
            wire.send("fetch", 12, **fetch_request("t", 0, **whole))
        wires[2].send("fetch", 12, **fetch_request("t", 20, max_wait=LONG_MS))
        partition = broker.broker.partition("t", 0)
        assert partition is not None
        until(lambda: broker.call(lambda: bool(partition.watchers)), "the Fetch to wait")
        stopped = stopping.submit(running.close)
        rows = [wire.receive()[1].responses[0].partitions[0] for wire in wires[:3]]
        assert {row.error_code for row in rows} == {ErrorCode.none}
        assert [len(read_batches(row.records or b"")) for row in rows] == [20, 20, 0]
        for wire in wires:
            with pytest.raises(ConnectionClosed):
                wire.receive_bytes()
            wire.close()
        stopped.result(60)
