"""The settings with which a command itself speaks to the log, where no client library is needed."""

from __future__ import annotations

import os
from pathlib import Path

from headwater.cli.properties import read_settings

TIMEOUT_MS = 10_000


def client_config() -> dict[str, str]:
    """How to reach a secured broker: librdkafka's settings in the file of HEADWATER_CLIENT_CONFIG."""
    path = os.environ.get("HEADWATER_CLIENT_CONFIG")
    return read_settings(Path(path)) if path else {}


def client_settings(bootstrap: str) -> dict[str, str]:
    """For `headwater.spark.connect.Cluster`; a broker that is away is waited for briefly."""
    from headwater.spark.options import Options

    named = {
        "default.api.timeout.ms": str(TIMEOUT_MS),
        **client_config(),
        "bootstrap.servers": bootstrap,
        "client.id": "headwater",
    }
    return Options({f"kafka.{name}": value for name, value in named.items()}).client_settings()
