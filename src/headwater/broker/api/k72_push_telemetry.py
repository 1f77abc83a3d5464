"""PushTelemetry (key 72), version 0: metrics of a client, as OpenTelemetry message; KIP-714.

Refused: by an old subscription, sooner than it says, in an unknown compression, too large, or unreadable.
The rest becomes a record of `__client_metrics`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def handle(broker: Broker, request: Any, context: Context) -> Response:
    return {"error_code": await broker.telemetry.push(request, context)}


API = Api(72, "PushTelemetry", (0, 0), handle)
