"""What a broker's error code means to a request: nothing, try again after a moment, or refused for good.

`cluster` and all that asks through it look at every answer with `check`.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

from typing import Any

from kio.schema.errors import ErrorCode

from headwater.client.errors import RequestRefused

_RETRIED = frozenset(
    {
        ErrorCode.leader_not_available,
        ErrorCode.not_leader_or_follower,
        ErrorCode.request_timed_out,
        ErrorCode.network_exception,
        ErrorCode.kafka_storage_error,
        ErrorCode.offset_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    }
)


class TryAgain(Exception):
    """An answer that another attempt, after a moment, may better."""


def check(code: ErrorCode, what: str, message: str | None = None) -> None:
    """Nothing for success; TryAgain, or RequestRefused with what was attempted and the broker's words."""
    if code is ErrorCode.none:
        return
    if code in _RETRIED:
        raise TryAgain(f"{what}: {code.name}")
    hint = None
    if code.name.endswith("authorization_failed"):
        hint = "The user lacks a right: see `headwater acls` or kafka-acls.sh."
    said = f"{code.name} ({message.rstrip('.')})" if message else code.name
    raise RequestRefused(f"{what} failed: {said}.", hint=hint, code=int(code))


def is_there(answer: Any) -> bool:
    """Whether an answer about a topic is about one that exists."""
    if answer.error_code in (
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_topic_exception,
        ErrorCode.unknown_topic_id,
    ):
        return False
    check(answer.error_code, f"looking at topic {answer.name}")
    return True
