"""ApiVersions (key 18), versions 0–4: what this broker speaks; KIP-35, KIP-511, KIP-584.

Answered from the registry, with the features and their levels. Before version 4 a feature that starts
at 0 is left out of the supported ones: clients of that time would not read it (KAFKA-17011). A version
that we do not know gets UNSUPPORTED_VERSION in the form of version 0, with the range of ApiVersions
itself, so that the client can try again (`request` is then None). The APIs for client metrics are named
while there is a subscription, as Kafka names them only where somebody takes metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

TELEMETRY = (71, 72)


def api_versions(broker: Broker, request: Any, context: Context) -> Response:
    if request is None:
        return {"error_code": ErrorCode.unsupported_version, "api_keys": _ranges([API])}
    if context.api_version >= 3 and not _valid(request):
        return {"error_code": ErrorCode.invalid_request, "api_keys": ()}
    if context.api_version >= 3 and context.connection is not None:
        software = request.client_software_name, request.client_software_version
        context.connection.software = software
    return {"api_keys": _ranges(_offered(broker)), **_features(broker, context)}


def _offered(broker: Broker) -> list[Api]:
    """All of them; those for metrics only while somebody wants some, lest every client ask."""
    hidden = () if broker.telemetry.active else TELEMETRY
    return [api for key, api in broker.apis.items() if key not in hidden]


def _features(broker: Broker, context: Context) -> Response:
    if context.api_version < 3:
        return {}
    supported = broker.features.supported.items()
    levels = {name: broker.features.level(name) for name, _ in supported}
    return {
        "supported_features": [
            {"name": name, "min_version": feature.low, "max_version": feature.high}
            for name, feature in supported
            if feature.low > 0 or context.api_version >= 4
        ],
        "finalized_features_epoch": broker.catalogue.epoch,
        "finalized_features": [
            {"name": name, "min_version_level": level, "max_version_level": level}
            for name, level in levels.items()
            if level > 0
        ],
    }


def _valid(request: Any) -> bool:
    """Kafka wants a name and a version of the client's software: letters, digits, '.' and '-'."""
    texts = (request.client_software_name, request.client_software_version)
    return all(
        text and all(c.isascii() and (c.isalnum() or c in ".-_+") for c in text) for text in texts
    )


def _ranges(apis: list[Api]) -> list[dict[str, int]]:
    return [
        {"api_key": api.key, "min_version": api.versions[0], "max_version": api.versions[1]}
        for api in apis
    ]


API = Api(18, "ApiVersions", (0, 4), api_versions)
