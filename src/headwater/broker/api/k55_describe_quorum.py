"""DescribeQuorum (key 55), versions 0 to 2: who keeps the cluster's metadata; KIP-595, KIP-836, KIP-853.

`__cluster_metadata` is how Kafka's tools call it; here it is the catalogue's log, and this node is the
only voter, always caught up. Any other topic or partition is not there, and spoils the whole request,
as in Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

TOPIC = "__cluster_metadata"


def handle(broker: Broker, request: Any, context: Context) -> Response:
    asked = [
        (topic.topic_name, [each.partition_index for each in topic.partitions])
        for topic in request.topics
    ]
    if asked != [(TOPIC, [0])]:
        return {"error_message": "", "topics": _unknown(asked)}
    rows = [_quorum(broker)]
    node = {
        "node_id": broker.node_id,
        "listeners": [{"name": "CONTROLLER", "host": broker.host, "port": broker.port}],
    }
    return {
        "error_message": "",
        "topics": [{"topic_name": TOPIC, "partitions": rows}],
        "nodes": [node],
    }


def _quorum(broker: Broker) -> dict[str, Any]:
    end, now_ms = broker.catalogue.epoch, broker.clock.now_ms()
    voter = {
        "replica_id": broker.node_id,
        "log_end_offset": end,
        "last_fetch_timestamp": now_ms,
        "last_caught_up_timestamp": now_ms,
    }
    return {
        "partition_index": 0,
        "error_message": "",
        "leader_id": broker.node_id,
        "leader_epoch": 1,
        "high_watermark": end,
        "current_voters": [voter],
        "observers": (),
    }


def _unknown(asked: list[tuple[str, list[int]]]) -> list[dict[str, Any]]:
    return [
        {
            "topic_name": topic,
            "partitions": [
                {
                    "partition_index": number,
                    "error_code": ErrorCode.unknown_topic_or_partition,
                    "error_message": "This server does not host this topic-partition.",
                }
                for number in numbers
            ],
        }
        for topic, numbers in asked
    ]


API = Api(55, "DescribeQuorum", (0, 2), handle)
