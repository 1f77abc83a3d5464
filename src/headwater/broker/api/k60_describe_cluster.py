"""DescribeCluster (key 60), versions 0–2: the one node; KIP-700, KIP-919, KIP-1073."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.api.k03_metadata import CLUSTER_OPERATIONS, NO_OPERATIONS
from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

BROKERS, CONTROLLERS = 1, 2


def describe_cluster(broker: Broker, request: Any, context: Context) -> Response:
    kind = getattr(request, "endpoint_type", BROKERS)
    if kind != BROKERS:
        code, sentence = ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {kind}"
        if kind == CONTROLLERS:
            code = ErrorCode.mismatched_endpoint_type
            sentence = (
                "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of "
                "type CONTROLLER"
            )
        return {"error_code": code, "error_message": sentence, "endpoint_type": BROKERS}
    operations = request.include_cluster_authorized_operations
    host, port = context.address(broker)
    return {
        "endpoint_type": BROKERS,
        "cluster_id": broker.cluster_id,
        "controller_id": broker.node_id,
        "brokers": [
            {
                "broker_id": broker.node_id,
                "host": host,
                "port": port,
                "rack": broker.settings.get("broker.rack"),
            }
        ],
        "cluster_authorized_operations": CLUSTER_OPERATIONS if operations else NO_OPERATIONS,
    }


API = Api(60, "DescribeCluster", (0, 2), describe_cluster)
