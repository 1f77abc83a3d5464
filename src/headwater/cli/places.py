"""Where a broker works: folder, address, durability, from the command's words or else its settings.

Called by `quick.start`. A word on the command line wins; then Kafka's names in the settings
(`log.dirs`, `listeners`), so that a `server.properties` can be carried over as it is; then the
default.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

DATA = "data/log"
LISTEN = "127.0.0.1:9092"
DURABILITY = "disk"


class Places(NamedTuple):
    data: Path
    listen: str | None
    """None: the broker reads `listeners` itself."""
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
        listen=listen if listen or settings.get("listeners", "").strip() else LISTEN,
        advertise=advertise,
        durability=durability or settings.get("durability") or DURABILITY,
    )
