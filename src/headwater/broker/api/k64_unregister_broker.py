"""UnregisterBroker (key 64), version 0: forget a broker that is gone; KIP-500, KIP-746.

Only this broker is registered, and it cannot forget itself while it runs: INVALID_REQUEST. Any other
id is not registered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: Broker, request: Any, context: Context) -> Response:
    if request.broker_id == broker.node_id:
        sentence = f"Broker {broker.node_id} is the only one, and is running."
        return {"error_code": ErrorCode.invalid_request, "error_message": sentence}
    sentence = f"Broker ID {request.broker_id} is not currently registered"
    return {"error_code": ErrorCode.broker_id_not_registered, "error_message": sentence}


API = Api(64, "UnregisterBroker", (0, 0), handle)
