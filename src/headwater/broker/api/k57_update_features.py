"""UpdateFeatures (key 57), versions 0 to 2: raise or lower a feature's level; all updates or none.

Version 0 says `allow_downgrade` where later ones name the kind of change; version 2 has no results
for single features. The rules are in `features`; a change is durable before it is answered. KIP-584,
KIP-778.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kio.schema.errors import ErrorCode

from headwater.broker.features import SAFE_DOWNGRADE, UPGRADE, FeatureRefused, Update
from headwater.broker.registry import Api, Context, Response
from headwater.broker.topic_admission import TopicError, storage_errors

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


async def handle(broker: Broker, request: Any, context: Context) -> Response:
    updates = [_update(each) for each in request.feature_updates]
    async with broker.catalogue.changing:
        try:
            changes = broker.features.check(updates)
        except FeatureRefused as refused:
            sentence = (
                "The update failed for all features since the following feature had an error: "
                f"{refused}"
            )
            return {"error_code": ErrorCode.invalid_update_version, "error_message": sentence}
        if not getattr(request, "validate_only", False):
            try:
                with storage_errors():
                    for name, level in changes.items():
                        await broker.catalogue.set_feature(name, level)
            except TopicError as refused:
                return refused.row
    results = [{"feature": each.feature, "error_message": "NONE"} for each in updates]
    return {"error_message": None, "results": results}


def _update(asked: Any) -> Update:
    kind = getattr(asked, "upgrade_type", None)
    if kind is None:
        kind = SAFE_DOWNGRADE if asked.allow_downgrade else UPGRADE
    return Update(asked.feature, asked.max_version_level, kind)


API = Api(57, "UpdateFeatures", (0, 2), handle)
