"""DescribeLogDirs (key 35), versions 1–5: sizes of the partitions on disk; KIP-113, KIP-827 (space).

Many of them are looked at in several turns of the event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.broker.registry import Api, Context, Response, always
from headwater.broker.turns import in_turns

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def describe_log_dirs(broker: Broker, request: Any, context: Context) -> Response:
    wanted: dict[str, set[int]] | None = None
    if request.topics is not None:
        wanted = {}
        for asked in request.topics:
            wanted.setdefault(asked.topic, set()).update(asked.partitions)
    topics: dict[str, list[dict[str, Any]]] = {}
    partitions = broker.topics.partitions
    async for topic, number in in_turns(sorted(partitions), broker.supervisor.monotonic):
        partition = partitions.get((topic, number))
        if partition is None:  # it went meanwhile
            continue
        if wanted is None or number in wanted.get(topic, ()):
            topics.setdefault(topic, []).append(
                {"partition_index": number, "partition_size": partition.log.size(), "offset_lag": 0}
            )
    return {
        "results": [
            {
                "log_dir": str(broker.data),
                "topics": [{"name": name, "partitions": rows} for name, rows in topics.items()],
                "total_bytes": broker.disk_space.total_bytes,
                "usable_bytes": broker.disk_space.free_bytes,
            }
        ]
    }


API = Api(35, "DescribeLogDirs", (1, 5), describe_log_dirs, lists=always)
