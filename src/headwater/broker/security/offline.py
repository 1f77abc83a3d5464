"""A stopped broker's users: so that the first of them can be made before anybody can connect.

`headwater users --data DIR` comes here. The broker is started on its folder without any listener, which
takes the folder's lock, recovers it if need be, and leaves it clean.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.broker.broker import Broker
from headwater.broker.security.credentials import Credentials
from headwater.broker.security.doors import Doors
from headwater.log.meta import META


@asynccontextmanager
async def users_of(data: Path) -> AsyncIterator[Credentials]:
    """The users in this folder, made where missing; changes are durable when they return."""
    broker = Broker(data, settings={"node.id": _node_id(data)})
    broker.doors = Doors([], broker.settings, broker.supervisor)
    async with broker:
        yield broker.credentials


def _node_id(data: Path) -> str:
    try:
        text = (data / META).read_text(errors="replace")
    except OSError:
        return "1"
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return found.get("node.id", "1")
