"""IncrementalAlterConfigs (key 44), versions 0 and 1: change single configs and leave the others.

SET and DELETE for all, APPEND and SUBTRACT for lists. Topics; this broker and, with an empty name,
all brokers (dynamic settings only); the levels of headwater's loggers. A resource is changed as a
whole or not at all, and is durable before it is answered.

KIP-339 (the API), KIP-412 (loggers).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwater.broker.registry import Api, Context
from headwater.broker.settings.alter import Operation
from headwater.broker.settings.requests import Alteration, Plan, alter

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    alterations = [
        Alteration(resource.resource_type, resource.resource_name, _as_asked(resource.configs))
        for resource in request.resources
    ]
    return {"responses": await alter(broker, alterations, request.validate_only)}


def _as_asked(configs: Sequence[Any]) -> Plan:
    operations = [Operation(each.name, each.config_operation, each.value) for each in configs]

    def plan(current: Mapping[str, str]) -> Sequence[Operation]:
        return operations

    return plan


API = Api(44, "IncrementalAlterConfigs", (0, 1), handle)
