"""Short forms of the wire requests that many tests need: produce, fetch, look at offsets."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Sequence
from typing import Any

from .batches import Batch, read_batches
from .waiting import until
from .wire import ErrorCode, Wire

PASSING = frozenset(
    {
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
    }
)
"""What a coordinator answers that is not there yet; every client asks again."""
EARLIEST, LATEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED = -2, -1, -3, -4, -5


def answered(ask: Callable[[], Any]) -> Any:
    """Ask again while the coordinator says that it is not there: a loaded Apache Kafka does, at any time."""
    answers: list[Any] = []

    def over() -> bool:
        answers[:] = [ask()]
        return answers[0].error_code not in PASSING

    until(over, "the coordinator to answer")
    return answers[0]


def produce(
    wire: Wire, topic: str, records: bytes, *, partition: int = 0, acks: int = -1, version: int = 9
) -> Any:
    """Produce to one partition; the partition's answer."""
    answer = wire.ask("produce", version, **produce_request(topic, records, partition, acks))
    return answer.responses[0].partition_responses[0]


def produce_request(topic: str, records: bytes, partition: int = 0, acks: int = -1) -> Any:
    data = [{"index": partition, "records": records}]
    return {
        "acks": acks,
        "timeout": 60_000,
        "topic_data": [{"name": topic, "partition_data": data}],
    }


def offset_at(wire: Wire, topic: str, timestamp: int, partition: int = 0, version: int = 8) -> Any:
    """ListOffsets for one partition; the partition's answer."""
    wanted = [{"partition_index": partition, "timestamp": timestamp}]
    answer = wire.ask(
        "list_offsets", version, replica_id=-1, topics=[{"name": topic, "partitions": wanted}]
    )
    return answer.topics[0].partitions[0]


def end_offset(wire: Wire, topic: str, partition: int = 0) -> int:
    return int(offset_at(wire, topic, LATEST, partition).offset)


def fetch_request(
    topic: str,
    offset: int = 0,
    *,
    partitions: Sequence[int] = (0,),
    max_wait: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 50_000_000,
    partition_max_bytes: int = 1_000_000,
    **more: Any,
) -> Any:
    wanted = [
        {"partition": each, "fetch_offset": offset, "partition_max_bytes": partition_max_bytes}
        for each in partitions
    ]
    return {
        "replica_id": -1,
        "max_wait": max_wait,
        "min_bytes": min_bytes,
        "max_bytes": max_bytes,
        "topics": [{"topic": topic, "partitions": wanted}],
        **more,
    }


def fetch(wire: Wire, topic: str, offset: int = 0, **options: Any) -> Any:
    """Fetch one partition outside any session (version 12, by name); the partition's answer."""
    return (
        wire.ask("fetch", 12, **fetch_request(topic, offset, **options)).responses[0].partitions[0]
    )


def read_all(wire: Wire, topic: str, offset: int = 0) -> list[Batch]:
    """Every batch from an offset to the end."""
    found: list[Batch] = []
    while (answer := fetch(wire, topic, offset, max_wait=1)).high_watermark > offset:
        assert answer.error_code is ErrorCode.none
        batches = read_batches(answer.records)
        found += batches
        offset = batches[-1].last_offset + 1
    return found


def new_producer_id(wire: Wire) -> tuple[int, int]:
    """(id, epoch) of a new idempotent producer."""

    def given() -> tuple[int, int] | None:
        answer = wire.ask("init_producer_id", 4, transaction_timeout=60_000, producer_id=-1)
        if answer.error_code in PASSING:
            return None  # Apache Kafka fetches its first block of ids when somebody asks
        assert answer.error_code is ErrorCode.none, answer
        return answer.producer_id, answer.producer_epoch

    return until(given, "a producer id")  # type: ignore[return-value]


def find_coordinator(wire: Wire, group: str) -> None:
    """Wait until the group's coordinator is there: the first one creates __consumer_offsets."""

    def found() -> bool:
        answer = wire.ask("find_coordinator", 4, key_type=0, coordinator_keys=[group])
        return answer.coordinators[0].error_code is ErrorCode.none

    until(found, f"the coordinator of {group}")

    def loaded() -> bool:
        answer = wire.ask("describe_groups", 5, groups=[group])
        return answer.groups[0].error_code not in PASSING

    until(loaded, f"the state of {group}")


def subscription(*topics: str, note: bytes = b"") -> bytes:
    """A consumer's metadata in JoinGroup, version 0. It must be well formed: Apache Kafka reads it,
    and where it holds an impossible array length, that join is never answered."""
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", len(note)) + note


class Member:
    """One member of a classic group, driven by hand over its own connection."""

    def __init__(self, wire: Wire, group: str, **join: Any) -> None:
        self.wire = wire
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.options: dict[str, Any] = {
            "session_timeout": 30_000,
            "rebalance_timeout": 30_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": subscription()}],
            **join,
        }

    def send_join(self, **changes: Any) -> None:
        values = {**self.options, "group_id": self.group, "member_id": self.member_id, **changes}
        self.wire.send("join_group", 9, **values)

    def receive_join(self) -> Any:
        answer = self.wire.receive()[1]
        if answer.error_code in (ErrorCode.none, ErrorCode.member_id_required):
            self.member_id = answer.member_id
        if answer.error_code is ErrorCode.none:
            self.generation = answer.generation_id
        return answer

    def join(self, **changes: Any) -> Any:
        """Join, answering the demand for a member id by joining again with it."""
        return answered(lambda: self._join(**changes))

    def _join(self, **changes: Any) -> Any:
        self.send_join(**changes)
        answer = self.receive_join()
        if answer.error_code is ErrorCode.member_id_required:
            self.send_join(**changes)
            answer = self.receive_join()
        return answer

    def sync(self, assignments: dict[str, bytes] | None = None, **changes: Any) -> Any:
        self.send_sync(assignments, **changes)
        return self.wire.receive()[1]

    def send_sync(self, assignments: dict[str, bytes] | None = None, **changes: Any) -> None:
        listed = [
            {"member_id": member, "assignment": data}
            for member, data in (assignments or {}).items()
        ]
        values = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.options.get("group_instance_id"),
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": listed,
        }
        self.wire.send("sync_group", 5, **{**values, **changes})

    def heartbeat(self, **changes: Any) -> ErrorCode:
        values = {
            "group_id": self.group,
            "generation_id": self.generation,
            "member_id": self.member_id,
            "group_instance_id": self.options.get("group_instance_id"),
        }
        return self.wire.ask("heartbeat", 4, **{**values, **changes}).error_code

    def leave(self) -> Any:
        who = {
            "member_id": self.member_id,
            "group_instance_id": self.options.get("group_instance_id"),
        }
        return self.wire.ask("leave_group", 5, group_id=self.group, members=[who])

    def commit(
        self, topic: str, offset: int, partition: int = 0, version: int = 9, **changes: Any
    ) -> ErrorCode:
        values = {
            "group_id": self.group,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.member_id,
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": partition,
                            "committed_offset": offset,
                            "committed_leader_epoch": -1,
                            "committed_metadata": "",
                        }
                    ],
                }
            ],
        }
        answer = self.wire.ask("offset_commit", version, **{**values, **changes})
        return answer.topics[0].partitions[0].error_code

    def until_heartbeat(self, wanted: ErrorCode, timeout: float = 60.0) -> None:
        until(lambda: self.heartbeat() is wanted, f"heartbeat to answer {wanted!r}", timeout)


def pairs_of(batches: list[Batch]) -> list[Any]:
    return list(itertools.chain.from_iterable(each.pairs for each in batches))
