"""Keeps APIs shut whose feature has been switched off with UpdateFeatures, as Kafka does.

`group.version` 0 ends the newer consumer protocol, `share.version` 0 share groups: their APIs are still
offered, and answer UNSUPPORTED_VERSION. The broker puts these gates in place once, at start; each is
one look at a level, before those APIs only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.features import Features
from headwater.broker.registry import Api, Context, Handler, Later, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

GATES = {
    **dict.fromkeys((68, 69), "group.version"),
    **dict.fromkeys((76, 77, 78, 79, 90, 91, 92), "share.version"),
}
"""API → the feature that it is part of."""


def gated(apis: Mapping[int, Api], features: Features) -> dict[int, Api]:
    """The same APIs, those of a feature behind its gate."""
    return {
        key: replace(api, handle=_gated(api.handle, features, GATES[key])) if key in GATES else api
        for key, api in apis.items()
    }


def _gated(inner: Handler, features: Features, feature: str) -> Handler:
    def handle(
        broker: Broker, request: Any, context: Context
    ) -> Response | Later | Awaitable[Response]:
        if features.level(feature) > 0:
            return inner(broker, request, context)
        return _shut(request)

    return handle


def _shut(request: Any) -> dict[str, Any]:
    error = {"error_code": ErrorCode.unsupported_version, "error_message": None}
    if hasattr(request, "group_ids"):
        return {"groups": [{"group_id": each, **error} for each in request.group_ids]}
    if hasattr(request, "groups"):
        return {"groups": [{"group_id": each.group_id, **error} for each in request.groups]}
    return error
