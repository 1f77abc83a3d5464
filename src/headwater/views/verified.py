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

from headwater.errors import HeadwaterError
from headwater.spark.connect import Cluster
from headwater.views.folding.state import AsOf, NoSuchState, state_of
from headwater.views.position import Position

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
    if said is None or said["to"] != to:
        return None
    return Verified(Position.from_json(json.dumps(said["position"])), said["rows"], said["at_ms"])


def note(
    client: Mapping[str, str], view: str, version: int, to: str, position: Position, rows: int
) -> None:
    """Keep that a view was right at this position. `client`: settings of librdkafka."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    settings: dict[str, Any] = {"log_level": 0, **client}
    admin = AdminClient(settings)
    wanted = NewTopic(TOPIC, 1, -1, config=TOPIC_CONFIG)
    try:
        admin.create_topics([wanted])[TOPIC].result(TIMEOUT_S)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    said = {
        "position": json.loads(position.to_json()),
        "rows": rows,
        "at_ms": time.time_ns() // 1_000_000,
        "to": to,
    }
    _write(settings, view, version, json.dumps(said).encode())


def forget(client: Mapping[str, str], view: str, version: int) -> None:
    """A version of this number is begun anew: nothing is known of it. The topic must be there."""
    _write({"log_level": 0, **client}, view, version, None)


def _write(settings: dict[str, Any], view: str, version: int, value: bytes | None) -> None:
    from confluent_kafka import Producer

    producer = Producer({**settings, "enable.idempotence": True})
    producer.produce(TOPIC, value, _key(view, version), partition=0)
    if producer.flush(TIMEOUT_S):
        raise HeadwaterError(
            f"what is known of {view} could not be written to {TOPIC}", hint="see the broker's log"
        )


def _key(view: str, version: int) -> str:
    return f"{view}@{version}"
