"""Rules for the configs of topics, groups, the broker and its loggers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Handler
from headwater.broker.security.acls import Operation
from headwater.broker.security.rules.permission import (
    CLUSTER_REFUSED,
    GROUP_REFUSED,
    TOPIC_REFUSED,
    Asker,
    Result,
    Rule,
    adding,
    only,
)
from headwater.broker.settings.alter import Resource

_SENTENCES = {
    TOPIC_REFUSED: "Topic authorization failed.",
    GROUP_REFUSED: "Group authorization failed.",
    CLUSTER_REFUSED: "Cluster authorization failed.",
}


def _refused(asker: Asker, operation: Operation, resource: Any) -> ErrorCode | None:
    kind, name = resource.resource_type, resource.resource_name
    if kind == Resource.TOPIC:
        return None if asker.topic(operation, name) else TOPIC_REFUSED
    if kind == Resource.GROUP:
        return None if asker.group(operation, name) else GROUP_REFUSED
    return None if asker.cluster(operation) else CLUSTER_REFUSED


def _rule(operation: Operation, answered: str) -> Rule:
    def rule(asker: Asker, request: Any, inner: Handler) -> Result:
        allowed, rows = [], []
        for resource in request.resources:
            code = _refused(asker, operation, resource)
            if code is None:
                allowed.append(resource)
                continue
            rows.append(
                {
                    "error_code": code,
                    "error_message": _SENTENCES[code],
                    "resource_type": resource.resource_type,
                    "resource_name": resource.resource_name,
                }
            )
        if not rows:
            return asker.ask(request, inner)
        return adding(asker.ask(only(request, resources=tuple(allowed)), inner), answered, rows)

    return rule


RULES: Mapping[int, Rule] = {
    32: _rule(Operation.DESCRIBE_CONFIGS, "results"),
    33: _rule(Operation.ALTER_CONFIGS, "responses"),
    44: _rule(Operation.ALTER_CONFIGS, "responses"),
}
