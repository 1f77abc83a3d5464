"""How the log is reached: one set of client settings, spelled for each of the two clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.spark.options import Options

Client = Mapping[str, str] | None
"""librdkafka's names, as in HEADWATER_CLIENT_CONFIG; none for a plain broker."""


def for_cluster(bootstrap: str, client: Client = None) -> dict[str, str]:
    """For `Cluster` and `line`, which speak Kafka's protocol themselves."""
    named = {**(client or {}), "bootstrap.servers": bootstrap, "client.id": "headwater-events"}
    return Options({f"kafka.{name}": value for name, value in named.items()}).client_settings()


def for_confluent(bootstrap: str, client: Client = None) -> dict[str, Any]:
    return {
        "log_level": 0,
        # librdkafka 2.16 stands still after a broker's restart otherwise: docs/transactions.md.
        "metadata.recovery.strategy": "none",
        **(client or {}),
        "bootstrap.servers": bootstrap,
    }
