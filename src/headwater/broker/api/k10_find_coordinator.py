"""FindCoordinator (key 10), versions 0 to 6: which node keeps this group or transaction. We do.

There is one node, so the answer to any valid question is this node; unless the partition that has the
key's state is offline: COORDINATOR_NOT_AVAILABLE. Key types: 0 group, 1
transactional id, 2 share partition (6+, keyed `group:topic id:partition`); others are INVALID_REQUEST.

KIP-98 (1: key types), KIP-699 (4: several keys), KIP-890 (5), KIP-932 (6: share partitions).
"""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64decode
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker import internal_topics
from headwater.broker.registry import Api, Context

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

GROUP, TRANSACTION, SHARE = 0, 1, 2
_STATE = {
    GROUP: internal_topics.CONSUMER_OFFSETS,
    TRANSACTION: internal_topics.TRANSACTION_STATE,
    SHARE: internal_topics.SHARE_GROUP_STATE,
}


def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    key_type = getattr(request, "key_type", GROUP)
    if context.api_version < 4:
        return _coordinator(broker, request.key, key_type, context)
    keys = request.coordinator_keys
    found = [{"key": key, **_coordinator(broker, key, key_type, context)} for key in keys]
    return {"coordinators": found}


def _coordinator(broker: Broker, key: str, key_type: int, context: Context) -> dict[str, Any]:
    problem = _problem(key, key_type, context.api_version)
    if problem:
        return {
            "error_code": ErrorCode.invalid_request,
            "error_message": problem,
            "node_id": -1,
            "host": "",
            "port": -1,
        }
    if key_type in _STATE and broker.topics.is_offline(_STATE[key_type], key):
        return {
            "error_code": ErrorCode.coordinator_not_available,
            "error_message": "What is known of this key lies in a partition that is offline.",
            "node_id": -1,
            "host": "",
            "port": -1,
        }
    host, port = context.address(broker)
    return {
        "error_code": ErrorCode.none,
        "error_message": "NONE" if context.api_version < 4 else "",
        "node_id": broker.node_id,
        "host": host,
        "port": port,
    }


def _problem(key: str, key_type: int, version: int) -> str:
    if key_type in (GROUP, TRANSACTION):
        return ""
    if key_type != SHARE:
        return f"There is no coordinator for keys of type {key_type}."
    if version < 6:
        return "Share partitions have a coordinator from version 6 on."
    return "" if _is_share_key(key) else "A share key must be group:topic id:partition."


def _is_share_key(key: str) -> bool:
    group, _, rest = key.partition(":")
    topic_id, _, partition = rest.rpartition(":")
    try:
        uuid.UUID(bytes=urlsafe_b64decode(topic_id + "=="))
        return bool(group) and int(partition) >= 0
    except ValueError:
        return False


API = Api(10, "FindCoordinator", (0, 6), handle, only_looks=True)
