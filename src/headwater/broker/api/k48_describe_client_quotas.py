"""DescribeClientQuotas (key 48), versions 0 and 1: the quotas of users, clients and addresses; KIP-546."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.broker.quotas import filters
from headwater.broker.quotas.filters import BadFilter, Component
from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: Broker, request: Any, context: Context) -> Response:
    components = [
        Component(each.entity_type, each.match_type, each.match) for each in request.components
    ]
    try:
        filters.check(components)
    except BadFilter as error:
        return {"error_code": error.code, "error_message": str(error), "entries": None}
    found = (
        (owner, values)
        for owner, values in broker.quotas.table.quotas.items()
        if filters.matches(owner, components, request.strict)
    )
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in owner],
            "values": [{"key": key, "value": value} for key, value in values.items()],
        }
        for owner, values in found
    ]
    return {"error_message": "", "entries": entries}


API = Api(48, "DescribeClientQuotas", (0, 1), handle)
