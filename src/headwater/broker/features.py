"""Which features of Kafka's protocol are in force, and at which level: KIP-584.

ApiVersions tells clients (a Java producer chooses its transaction protocol by `transaction.version`),
UpdateFeatures changes the levels, the catalogue keeps those that were changed. A feature is there if
the API is that it stands for; without a change its level is the highest.

Keeps APIs shut whose feature has been switched off with UpdateFeatures, as Kafka does.

`group.version` 0 ends the newer consumer protocol, `share.version` 0 share groups, `streams.version` 0
streams groups: their APIs are still
offered, and answer UNSUPPORTED_VERSION. The broker puts these gates in place once, at start; each is
one look at a level, before those APIs only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Handler, Later, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


METADATA_VERSION = "metadata.version"


class Feature(NamedTuple):
    """Levels from `low` to `high`, there if the API `api_key` is."""

    low: int
    high: int
    api_key: int


KNOWN = {
    "group.version": Feature(0, 1, 68),
    METADATA_VERSION: Feature(7, 30, 3),
    "share.version": Feature(0, 1, 76),
    "streams.version": Feature(0, 1, 88),
    "transaction.version": Feature(0, 2, 24),
}
"""Not here: kraft.version, eligible.leader.replicas.version (one node has no quorum and no replicas)."""


class FeatureRefused(Exception):
    """A level that may not be, in Kafka's words."""


class Update(NamedTuple):
    """One line of UpdateFeatures."""

    feature: str
    level: int
    upgrade_type: int


UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


class Features:
    """The features of one broker. `changed` is the catalogue's own view: name → level."""

    def __init__(self, node_id: int, api_keys: Container[int], changed: Mapping[str, int]) -> None:
        self.supported = {
            name: feature for name, feature in KNOWN.items() if feature.api_key in api_keys
        }
        self._node_id = node_id
        self._changed = changed

    def level(self, name: str) -> int:
        """The level in force; 0 for what is switched off or not there."""
        feature = self.supported.get(name)
        return 0 if feature is None else self._changed.get(name, feature.high)

    def check(self, updates: Sequence[Update]) -> dict[str, int]:
        """The levels that these updates lead to, or `FeatureRefused`: all of them or none."""
        levels = {name: self.level(name) for name in self.supported}
        for update in updates:
            self._check_one(update, levels)
            levels[update.feature] = update.level
        return {name: level for name, level in levels.items() if level != self.level(name)}

    def _check_one(self, update: Update, levels: Mapping[str, int]) -> None:
        name, level, kind = update
        invalid = f"Invalid update version {level} for feature {name}."
        if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            raise FeatureRefused(
                f"{invalid} The controller does not support the given upgrade type."
            )
        if level < 0:
            raise FeatureRefused(f"{invalid} A feature version cannot be less than 0.")
        feature = self.supported.get(name)
        who = f"Local controller {self._node_id}"
        if feature is None:
            raise FeatureRefused(f"{invalid} {who} does not support this feature.")
        if not feature.low <= level <= feature.high:
            raise FeatureRefused(
                f"{invalid} {who} only supports versions {feature.low}-{feature.high}"
            )
        if level >= levels[name]:
            return
        if kind == UPGRADE:
            raise FeatureRefused(
                f"{invalid} Can't downgrade the version of this feature without setting the upgrade "
                "type to either safe or unsafe downgrade."
            )
        if name == METADATA_VERSION:
            why = (
                "Refusing to perform the requested downgrade because it might delete metadata "
                "information."
                if kind == SAFE_DOWNGRADE
                else "Unsafe metadata downgrade is not supported in this version."
            )
            raise FeatureRefused(
                f"Unsupported {name} downgrade from {levels[name]} to {level}. {why}"
            )


GATES = {
    **dict.fromkeys((68, 69), "group.version"),
    **dict.fromkeys((88, 89), "streams.version"),
    **dict.fromkeys((76, 77, 78, 79, 90, 91, 92), "share.version"),
}
"""API → the feature that it is part of."""


PROTOCOLS = {
    **dict.fromkeys((68, 69), "consumer"),
    **dict.fromkeys((88, 89), "streams"),
}
"""API → what `group.coordinator.rebalance.protocols` must name."""


def gated(apis: Mapping[int, Api], features: Features) -> dict[int, Api]:
    """The same APIs, those of a feature behind its gate."""
    return {
        key: replace(api, handle=_gated(api, features)) if key in GATES else api
        for key, api in apis.items()
    }


def _gated(api: Api, features: Features) -> Handler:
    inner, feature, protocol = api.handle, GATES[api.key], PROTOCOLS.get(api.key)

    def handle(
        broker: Broker, request: Any, context: Context
    ) -> Response | Later | Awaitable[Response]:
        served = broker.settings.get("group.coordinator.rebalance.protocols")
        if features.level(feature) > 0 and (protocol is None or protocol in served):
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
