"""ListConfigResources (key 74), versions 0 and 1: what has configs, by kind.

Version 0 knows client metrics subscriptions only and was called ListClientMetricsResources. Without
kinds all of them are listed: topics, this broker and its loggers, subscriptions, groups that have
configs of their own. KIP-714, KIP-1142.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response
from headwater.broker.settings.alter import Resource

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: Broker, request: Any, context: Context) -> Response:
    if context.api_version == 0:
        wanted = {int(Resource.CLIENT_METRICS)}
    else:
        wanted = set(request.resource_types) or {int(kind) for kind in Resource}
    if not wanted <= {int(kind) for kind in Resource}:
        return {"error_code": ErrorCode.unsupported_version, "config_resources": ()}
    return {
        "config_resources": [
            {"resource_name": name, "resource_type": kind}
            for kind in Resource
            if kind in wanted
            for name in sorted(_names(broker, kind))
        ]
    }


def _names(broker: Broker, kind: Resource) -> Iterable[str]:
    if kind is Resource.TOPIC:
        return broker.catalogue.topics
    if kind is Resource.GROUP:
        return broker.catalogue.group_configs
    if kind is Resource.CLIENT_METRICS:
        return broker.catalogue.client_metrics
    return [str(broker.node_id)]


API = Api(74, "ListConfigResources", (0, 1), handle)
