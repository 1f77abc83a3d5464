"""One member of a share group, driven by hand over its own connection."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from .asking import answered, find_coordinator
from .batches import read_batches
from .cluster import Cluster
from .waiting import until
from .wire import ErrorCode, Wire

GROUP_RESOURCE = 32
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


class Sharer:
    """Joins, fetches and acknowledges; every answer is kept as the server sent it."""

    def __init__(self, wire: Wire, group: str, topic_id: Any) -> None:
        self.wire = wire
        self.group = group
        self.topic_id = topic_id
        self.member_id = str(uuid.uuid4())
        self.epoch = 0
        self.session = 0
        self.assigned: list[Any] = []

    # ---- the group ---------------------------------------------------------------------------------

    def heartbeat(self, **changes: Any) -> Any:
        values = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.epoch,
            **changes,
        }
        answer = answered(lambda: self.wire.ask("share_group_heartbeat", 1, **values))
        if answer.error_code is ErrorCode.none:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.assigned = list(answer.assignment.topic_partitions)
        return answer

    def join(self, *topics: str) -> Any:
        """Join, and stay until partitions are assigned: Apache Kafka assigns a moment later."""
        find_coordinator(self.wire, self.group)
        self.epoch = 0
        answer = self.heartbeat(subscribed_topic_names=topics)
        assert answer.error_code is ErrorCode.none, answer
        until(lambda: self.assigned or not self.heartbeat(), "an assignment")
        return answer

    def leave(self) -> Any:
        return self.heartbeat(member_epoch=-1)

    # ---- records -----------------------------------------------------------------------------------

    def request(
        self, acknowledgements: Sequence[Any] = (), partition: int = 0, **changes: Any
    ) -> dict[str, Any]:
        batches = [
            {"first_offset": first, "last_offset": last, "acknowledge_types": kinds}
            for first, last, kinds in acknowledgements
        ]
        parts = [{"partition_index": partition, "acknowledgement_batches": batches}]
        return {
            "group_id": self.group,
            "member_id": self.member_id,
            "share_session_epoch": self.session,
            "topics": [{"topic_id": self.topic_id, "partitions": parts}],
            **changes,
        }

    def fetch(
        self,
        *acknowledgements: Any,
        wait: int = 500,
        version: int = 2,
        partition: int = 0,
        **changes: Any,
    ) -> Any:
        """The whole answer."""
        self.send_fetch(
            *acknowledgements, wait=wait, version=version, partition=partition, **changes
        )
        return self.receive()

    def send_fetch(
        self,
        *acknowledgements: Any,
        wait: int = 500,
        version: int = 2,
        partition: int = 0,
        **changes: Any,
    ) -> None:
        limits = {
            "max_wait": wait,
            "min_bytes": 1,
            "max_bytes": 50_000_000,
            "max_records": 500,
            "batch_size": 500,
        }
        values = {**limits, **self.request(acknowledgements, partition), **changes}
        self.wire.send("share_fetch", version, **values)

    def receive(self) -> Any:
        answer = self.wire.receive()[1]
        if answer.error_code is ErrorCode.none:
            self.session += 1
        return answer

    def acknowledge(self, *acknowledgements: Any, version: int = 2, **changes: Any) -> Any:
        values = self.request(acknowledgements)
        answer = self.wire.ask("share_acknowledge", version, **{**values, **changes})
        if answer.error_code is ErrorCode.none:
            self.session += 1
        return answer

    def settle(self, first: int, last: int, *kinds: int, **changes: Any) -> ErrorCode:
        """Acknowledge one range; the partition's error."""
        answer = self.acknowledge((first, last, kinds), **changes)
        assert answer.error_code is ErrorCode.none, answer
        return ErrorCode(answer.responses[0].partitions[0].error_code)

    def take(self, timeout: float = 60.0, **options: Any) -> list[tuple[int, int, int]]:
        """Fetch until something is acquired: (first, last, delivery count) of each range."""

        def got() -> list[tuple[int, int, int]]:
            return acquired(self.fetch(**options))

        return until(got, "records to be acquired", timeout)  # type: ignore[return-value]

    def close(self) -> Any:
        """End the session."""
        return self.acknowledge(topics=[], share_session_epoch=-1)


def row(answer: Any) -> Any:
    """The only partition of an answer."""
    assert answer.error_code is ErrorCode.none, answer
    return answer.responses[0].partitions[0]


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    assert answer.error_code is ErrorCode.none, answer
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.responses
        for part in topic.partitions
        for each in part.acquired_records
    ]


def values(answer: Any) -> list[Any]:
    return [
        value
        for topic in answer.responses
        for part in topic.partitions
        for batch in read_batches(part.records)
        for _, value in batch.pairs
    ]


def configure(cluster: Cluster, group: str, **configs: str) -> None:
    """Set configs of a group; `_` in a name is a dot."""
    changes = [
        {"name": name.replace("_", "."), "config_operation": 0, "value": value}
        for name, value in configs.items()
    ]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": changes}
    with cluster.wire() as wire:
        answer = wire.ask("incremental_alter_configs", 1, resources=[resource])
        assert answer.responses[0].error_code is ErrorCode.none, answer
