"""A broker that speaks Kafka's protocol, in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.broker.broker import Broker as Broker

__all__ = ["Broker"]


def __getattr__(name: str) -> object:
    if name == "Broker":
        from headwater.broker.broker import Broker

        return Broker
    raise AttributeError(f"module 'headwater.broker' has no attribute {name!r}")
