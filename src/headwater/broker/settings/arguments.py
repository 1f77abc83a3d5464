"""What a broker is given beside its settings: where it listens, how durable it is. Called by `broker`."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.broker.security import listeners
from headwater.broker.security.listeners import Listener
from headwater.broker.settings import Settings
from headwater.broker.settings.values import BROKER


def as_settings(
    settings: Mapping[str, object],
    listen: str | None,
    durability: str | None,
    advertise: str | None,
) -> dict[str, object]:
    """What was given beside the settings, as settings: DescribeConfigs tells where values are from."""
    found: dict[str, object] = {}
    usual = {name: BROKER[name].default for name in ("durability", "listeners")} | dict(settings)
    if durability is not None and durability != usual["durability"]:
        found["durability"] = durability
    if listen is not None and [f"PLAINTEXT://{listen}"] != usual["listeners"]:
        found["listeners"] = f"PLAINTEXT://{listen}"
    if advertise is not None:
        first = found.get("listeners") or usual["listeners"]
        name = str(first[0] if isinstance(first, list) else first).partition("://")[0]
        found["advertised.listeners"] = f"{name.strip()}://{advertise}"
    return found


def listeners_of(listen: str | None, advertise: str | None, settings: Settings) -> list[Listener]:
    if listen is not None:
        return listeners.single(listen, advertise)
    found = listeners.from_settings(settings)
    if advertise is not None:
        found[0].advertised = listeners.address(advertise)
    return found
