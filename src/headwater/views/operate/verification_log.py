"""Up to where each view was found to be right: records of the log, one per view and version.

Written by `headwater verify`, shown by `headwater views`. Kept in the log and not in the targets: then a
target need not know of it, and a store that was restored from a copy cannot claim what holds no longer.

    topic __headwater_verified, compacted, one partition
    key   VIEW@VERSION
    value {"position": {…}, "rows": 1000000, "differing": 0, "at_ms": …, "to": "sqlite:shop.db"}
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.client import creation
from headwater.client.cluster import Cluster, cluster
from headwater.client.errors import ClientError
from headwater.client.options import cluster_settings
from headwater.client.position import Position
from headwater.errors import HeadwaterError
from headwater.secrets import are_alike, shown
from headwater.views.folding.state import AsOf, NoSuchState, state_of

TOPIC = "__headwater_verified"
TOPIC_CONFIG = {"cleanup.policy": "compact"}
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Verified:
    """A view had no differences, or had none any more, at this position."""

    position: Position
    rows: int
    at_ms: int


def read(cluster: Cluster, view: str, version: int, to: str) -> Verified | None:
    """What is known of a version of a view in this place."""
    try:
        said: Any = state_of(cluster, TOPIC, _key(view, version).encode(), AsOf()).row
    except NoSuchState:
        return None
    if said is None or not are_alike(said["to"], to):
        return None
    return Verified(Position.from_json(json.dumps(said["position"])), said["rows"], said["at_ms"])


def note(
    client: Mapping[str, str], view: str, version: int, to: str, position: Position, rows: int
) -> None:
    """Keep that a view was right at this position. `client`: settings of librdkafka."""
    creation.ensure_one(cluster(cluster_settings(client)), TOPIC, 1, TOPIC_CONFIG)
    said = {
        "position": json.loads(position.to_json()),
        "rows": rows,
        "at_ms": time.time_ns() // 1_000_000,
        "to": shown(to),
    }
    _write(client, view, version, json.dumps(said).encode())


def forget(client: Mapping[str, str], view: str, version: int) -> None:
    """A version of this number is begun anew: nothing is known of it. The topic must be there."""
    _write(client, view, version, None)


def _write(client: Mapping[str, str], view: str, version: int, value: bytes | None) -> None:
    from headwater.client.publisher import Draft, Publisher

    try:
        draft = Draft(_key(view, version).encode(), value, partition=0)
        Publisher(client, TIMEOUT_S).put(TOPIC, draft)
    except ClientError as error:
        raise HeadwaterError(
            f"what is known of {view} could not be written to {TOPIC}: {error}",
            hint="see the broker's log",
        ) from error


def _key(view: str, version: int) -> str:
    return f"{view}@{version}"
