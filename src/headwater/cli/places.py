"""Where a broker works: folder, address, durability, from the command's words or else its settings.

Called by `quick.start`. A word on the command line wins; then Kafka's names in the settings
(`log.dirs`, `listeners`, `advertised.listeners`), so that a `server.properties` can be carried
over as it is; then the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from headwater.errors import HeadwaterError

DATA = "data/log"
LISTEN = "127.0.0.1:9092"
DURABILITY = "disk"


class UnusableListener(HeadwaterError):
    """`listeners` or `advertised.listeners` names no address that this broker can use."""


class Places(NamedTuple):
    data: Path
    listen: str
    advertise: str | None
    durability: str


def places(
    settings: Mapping[str, str],
    *,
    data: str | None = None,
    listen: str | None = None,
    advertise: str | None = None,
    durability: str | None = None,
) -> Places:
    """The four, each from the strongest voice that says something about it."""
    return Places(
        data=Path(data or settings.get("log.dirs") or settings.get("log.dir") or DATA),
        listen=listen or _listener(settings, "listeners") or LISTEN,
        advertise=advertise or _listener(settings, "advertised.listeners"),
        durability=durability or settings.get("durability") or DURABILITY,
    )


def _listener(settings: Mapping[str, str], name: str) -> str | None:
    """The first client listener of `PLAINTEXT://HOST:PORT,CONTROLLER://HOST:PORT`."""
    text = settings.get(name, "").strip()
    if not text:
        return None
    for listener in text.split(","):
        label, separator, address = listener.strip().partition("://")
        host, colon, port = address.rpartition(":")
        if not separator or not colon or not port.isdigit():
            raise UnusableListener(
                f"{name} is not NAME://HOST:PORT but {listener.strip()!r}",
                hint="write, for example, PLAINTEXT://127.0.0.1:9092",
            )
        if label != "CONTROLLER":  # one process has no controller to talk to
            return f"{host or '0.0.0.0'}:{port}"  # no host: all addresses, as in Kafka
    raise UnusableListener(
        f"{name} has no listener for clients", hint="add PLAINTEXT://127.0.0.1:9092"
    )
