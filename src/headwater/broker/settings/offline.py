"""A stopped broker's dynamic settings: so that one that locks everybody out can be taken back.

`headwater settings --data DIR` comes here. The broker is started on its folder without any listener, which
takes the folder's lock, recovers it if need be, and leaves it clean.

Also here: a stopped broker's users: so that the first of them can be made before anybody can connect.

`headwater users --data DIR` comes here. The broker is started on its folder without any listener, which
takes the folder's lock, recovers it if need be, and leaves it clean.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.broker.broker import Broker
from headwater.broker.security.credentials import Credentials
from headwater.broker.security.socket_server import SocketServer
from headwater.broker.settings.values import BROKER
from headwater.log.meta import META


def is_folder(data: Path) -> bool:
    """Whether a broker has had its data here."""
    return (data / META).is_file()


async def changed_settings(
    data: Path, unset: Iterable[str] = ()
) -> tuple[list[dict[str, str]], list[str]]:
    """What was changed while it ran and still is (node "": of all nodes); and which of `unset` was not."""
    missing: list[str] = []
    async with broker_without_listeners(data) as broker:
        catalogue = broker.catalogue
        for name in unset:
            nodes = [n for n, configs in catalogue.broker_configs.items() if name in configs]
            for node in nodes:
                kept = catalogue.broker_configs[node]
                left = {each: value for each, value in kept.items() if each != name}
                await catalogue.set_broker_configs(node, left)
            if not nodes:
                missing.append(name)
        return [
            {"node": node, "name": name, "value": "(hidden)" if _is_secret(name) else value}
            for node, configs in sorted(catalogue.broker_configs.items())
            for name, value in sorted(configs.items())
        ], missing


def _is_secret(name: str) -> bool:
    return name not in BROKER or BROKER[name].sensitive


@asynccontextmanager
async def users_of(data: Path) -> AsyncIterator[Credentials]:
    """The users in this folder, made where missing; changes are durable when they return."""
    async with broker_without_listeners(data) as broker:
        yield broker.credentials


@asynccontextmanager
async def broker_without_listeners(data: Path) -> AsyncIterator[Broker]:
    """Started on this folder for whoever has it at hand; nobody can connect."""
    broker = Broker(data, settings={"node.id": _node_id(data)})
    broker.socket_server = SocketServer([], broker.settings, broker.supervisor)
    async with broker:
        yield broker


def _node_id(data: Path) -> str:
    try:
        text = (data / META).read_text(errors="replace")
    except OSError:
        return "1"
    found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return found.get("node.id", "1")
