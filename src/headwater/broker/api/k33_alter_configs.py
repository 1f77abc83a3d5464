"""AlterConfigs (key 33), versions 0 to 2: replace all configs of a topic or of a broker.

What the request does not name goes back to its default; clients that want to change one config use
IncrementalAlterConfigs. Broker loggers are not for this API.

KIP-133.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headwater.broker.registry import Api, Context
from headwater.broker.settings.alter import Operation, Resource, Verb
from headwater.broker.settings.requests import Alteration, Plan, alter, unknown_resource

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def handle(broker: Broker, request: Any, context: Context) -> dict[str, Any]:
    alterations = [_alteration(resource) for resource in request.resources]
    return {"responses": await alter(broker, alterations, request.validate_only)}


def _alteration(resource: Any) -> Alteration:
    loggers = resource.resource_type == Resource.BROKER_LOGGER
    plan = _refusing_loggers if loggers else _replacing(resource.configs)
    return Alteration(resource.resource_type, resource.resource_name, plan)


def _replacing(configs: Sequence[Any]) -> Plan:
    def plan(current: Mapping[str, str]) -> Sequence[Operation]:
        given = [Operation(config.name, Verb.SET, config.value) for config in configs]
        kept = {operation.name for operation in given}
        gone = (Operation(name, Verb.DELETE, None) for name in current if name not in kept)
        return [*given, *gone]

    return plan


def _refusing_loggers(current: Mapping[str, str]) -> Sequence[Operation]:
    raise unknown_resource(Resource.BROKER_LOGGER)


API = Api(33, "AlterConfigs", (0, 2), handle)
