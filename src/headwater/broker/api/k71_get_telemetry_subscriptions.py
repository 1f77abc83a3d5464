"""GetTelemetrySubscriptions (key 71), version 0: which metrics a client is to push; KIP-714.

A client without an instance id gets one. Apache Kafka offers this API only with a reporter plug-in that
takes metrics; here it is offered while there is a subscription, and what is pushed goes to a topic.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from headwater.broker.registry import Api, Context, Response
from headwater.broker.telemetry.collector import ACCEPTED

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: Broker, request: Any, context: Context) -> Response:
    instance = request.client_instance_id or uuid.uuid4()
    code, wanted = broker.telemetry.ask(instance, context)
    return {
        "error_code": code,
        "client_instance_id": instance,
        "subscription_id": wanted.number,
        "accepted_compression_types": ACCEPTED,
        "push_interval": wanted.interval_ms,
        "telemetry_max_bytes": broker.settings.get("telemetry.max.bytes"),
        "delta_temporality": True,
        "requested_metrics": wanted.metrics,
    }


API = Api(71, "GetTelemetrySubscriptions", (0, 0), handle)
