"""ListPartitionReassignments (key 46), version 0: moves of replicas that are going on; KIP-455.

On one node there is never one, whatever is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: Broker, request: Any, context: Context) -> Response:
    return {"error_message": None, "topics": ()}


API = Api(46, "ListPartitionReassignments", (0, 0), handle)
