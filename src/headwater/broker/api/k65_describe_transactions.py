"""DescribeTransactions (key 65), version 0: what the coordinator knows of transactional ids; KIP-664."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.once import once
from headwater.broker.registry import Api, Context, Response, always

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_NOTHING: dict[str, Any] = {
    "transaction_state": "",
    "transaction_timeout": 0,
    "transaction_start_time": 0,
    "producer_id": 0,
    "producer_epoch": 0,
    "topics": (),
}


def describe(broker: Broker, request: Any, context: Context) -> Response:
    names = once(request.transactional_ids)
    return {"transaction_states": [_one(broker, name) for name in names]}


def _one(broker: Broker, name: str) -> dict[str, Any]:
    row: dict[str, Any] = {"transactional_id": name, **_NOTHING}
    coordinator = broker.transactions
    if coordinator.refusal is not ErrorCode.none:
        return row | {"error_code": coordinator.refusal}
    if not name:
        return row | {"error_code": ErrorCode.invalid_request}
    known = coordinator.transactions.get(name)
    if known is None:
        return row | {"error_code": ErrorCode.transactional_id_not_found}
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(known.partitions):
        topics.setdefault(topic, []).append(number)
    return row | {
        "error_code": ErrorCode.none,
        "transaction_state": known.state.label,
        "transaction_timeout": known.timeout_ms,
        "transaction_start_time": known.start_ms,
        "producer_id": known.producer_id,
        "producer_epoch": known.epoch,
        "topics": [{"topic": topic, "partitions": found} for topic, found in topics.items()],
    }


API = Api(65, "DescribeTransactions", (0, 0), describe, only_looks=True, lists=always)
