"""The options of `Application` and of its `send`, as types: `BlockingApplication` hands them on.

How the log is reached: one set of client settings, spelled for each of the two clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

from headwater.client.options import cluster_settings, enduring

Owns = Literal["group", "all", "none"]
"""Which partitions an application decides for: its share of the group's, all of them, or none."""


class ApplicationOptions(TypedDict, total=False):
    """Of `Application` and `BlockingApplication`."""

    client: Client
    owns: Owns
    partitions: int
    snapshot_every: int
    window: int
    session_timeout_ms: int
    timeout_s: float


class SendOptions(TypedDict, total=False):
    """Of `send` and `submit`."""

    command_id: str | None
    expected_version: int | None
    who: str
    why: str
    correlation: str
    causation: str
    sent_at_ms: int | None
    timeout_s: float | None


Client = Mapping[str, str] | None
"""librdkafka's names, as in HEADWATER_CLIENT_CONFIG; none for a plain broker."""


def for_cluster(bootstrap: str, client: Client = None) -> dict[str, str]:
    """For `Cluster` and `line`, which speak Kafka's protocol themselves."""
    named = {**(client or {}), "bootstrap.servers": bootstrap, "client.id": "headwater-events"}
    return cluster_settings(named)


def for_confluent(bootstrap: str, client: Client = None) -> dict[str, Any]:
    return {"log_level": 0, **enduring(client), "bootstrap.servers": bootstrap}


def for_group(settings: Mapping[str, Any], group: str, session_timeout_ms: int) -> dict[str, Any]:
    """A member's settings: it commits by itself what is done, and only partitions that move stand still."""
    return {
        **settings,
        "group.id": group,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "partition.assignment.strategy": "cooperative-sticky",
        "session.timeout.ms": session_timeout_ms,
        "heartbeat.interval.ms": max(session_timeout_ms // 5, 50),
        "fetch.wait.max.ms": 50,
    }
