"""Heartbeat (key 12), versions 0 to 4: a member lives, and asks whether it must rejoin.

REBALANCE_IN_PROGRESS tells it to send JoinGroup; ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID and
FENCED_INSTANCE_ID tell it that it is no longer who it thinks.

KIP-345 (3: static members).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.broker.registry import Api, Context

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    error = broker.groups.heartbeat(
        request.group_id,
        request.member_id,
        getattr(request, "group_instance_id", None),
        request.generation_id,
    )
    return {"error_code": error}


API = Api(12, "Heartbeat", (0, 4), handle)
