"""What a member of a streams group is told beside its tasks: why there are none, or that all shall end."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple


class StatusCode(IntEnum):
    """Kafka's numbers."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    code: StatusCode
    detail: str
