"""AlterReplicaLogDirs (key 34), versions 1 and 2: move a partition to another folder; KIP-113.

There is one folder. A partition that is in it already is where it should be; any other folder is
LOG_DIR_NOT_FOUND, as for a Kafka broker that has no such one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: Broker, request: Any, context: Context) -> Response:
    results: dict[str, dict[int, ErrorCode]] = {}
    for wanted in request.dirs:
        ours = Path(wanted.path) == broker.data
        for topic in wanted.topics:
            rows = results.setdefault(topic.name, {})
            for number in topic.partitions:
                rows[number] = _outcome(broker, ours, topic.name, number)
    return {
        "results": [
            {
                "topic_name": topic,
                "partitions": [
                    {"partition_index": number, "error_code": code} for number, code in rows.items()
                ],
            }
            for topic, rows in results.items()
        ]
    }


def _outcome(broker: Broker, ours: bool, topic: str, number: int) -> ErrorCode:
    if not ours:
        return ErrorCode.log_dir_not_found
    if broker.partition(topic, number) is None:
        return ErrorCode.unknown_topic_or_partition
    return ErrorCode.none


API = Api(34, "AlterReplicaLogDirs", (1, 2), handle)
