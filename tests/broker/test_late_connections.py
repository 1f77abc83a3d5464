"""Who comes while the broker closes its doors is let in and sent away: no socket stays open behind it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import sys
from pathlib import Path
from typing import Any

import pytest

from headwater.broker.broker import Broker


@pytest.mark.filterwarnings("error::ResourceWarning")
@pytest.mark.parametrize("turns", range(5))
def test_nobody_is_left_at_the_door(
    data: Path, turns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: left.append(found.exc_value))
    asyncio.run(_stopped_while_clients_come(data, turns))
    gc.collect()
    assert left == []


async def _stopped_while_clients_come(data: Path, turns: int) -> None:
    broker = Broker(data, "127.0.0.1:0")
    await broker.__aenter__()
    with contextlib.ExitStack() as clients:
        for _ in range(20):
            client = clients.enter_context(socket.socket())
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect((broker.host, broker.port))
            # The broker waits for its clients to go; these do when they are told.
            asyncio.get_running_loop().call_later(0.2, client.close)
        for _ in range(turns):
            await asyncio.sleep(0)
        await broker.stop()
