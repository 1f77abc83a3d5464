"""Rules for what concerns the whole broker: ACLs, users, quotas, features, elections, tokens of a login."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Handler
from headwater.broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from headwater.broker.security.rules.permission import (
    CLUSTER_REFUSED,
    NOT_ASKED,
    Asker,
    Result,
    Row,
    Rule,
    free,
    numbers,
    then,
)

Refusal = Callable[[Any, ErrorCode], Row]
SENTENCE = "Cluster authorization failed."


def needs(operation: Operation, refusal: Refusal) -> Rule:
    """The whole request needs this permission on the cluster."""

    def rule(asker: Asker, request: Any, inner: Handler) -> Result:
        if asker.cluster(operation):
            return asker.ask(request, inner)
        return refusal(request, CLUSTER_REFUSED)

    return rule


def _top(request: Any, code: ErrorCode) -> Row:
    return {"error_code": code}


def _said(request: Any, code: ErrorCode) -> Row:
    return {"error_code": code, "error_message": SENTENCE}


def _each(asked: str, answered: str, row: Callable[[Any], Row] = lambda item: {}) -> Refusal:
    """The error once for every item of the request."""

    def refusal(request: Any, code: ErrorCode) -> Row:
        rows = [
            {**row(item), "error_code": code, "error_message": SENTENCE}
            for item in getattr(request, asked)
        ]
        return {answered: rows}

    return refusal


def _users(request: Any, code: ErrorCode) -> Row:
    names = dict.fromkeys(each.name for each in (*request.deletions, *request.upsertions))
    return {
        "results": [{"user": name, "error_code": code, "error_message": SENTENCE} for name in names]
    }


def _described_users(request: Any, code: ErrorCode) -> Row:
    rows = [
        {"user": each.name, "error_code": code, "error_message": SENTENCE}
        for each in request.users or ()
    ]
    return {"error_code": code, "error_message": SENTENCE, "results": rows}


def _reassignments(request: Any, code: ErrorCode) -> Row:
    rows = [
        {
            "name": topic.name,
            "partitions": [
                {"partition_index": n, "error_code": code, "error_message": SENTENCE}
                for n in numbers(topic)
            ],
        }
        for topic in request.topics
    ]
    return {"error_code": code, "error_message": SENTENCE, "responses": rows}


def _entity(entry: Any) -> Row:
    return {
        "entity": [
            {"entity_type": each.entity_type, "entity_name": each.entity_name}
            for each in entry.entity
        ]
    }


def _log_dirs(request: Any, code: ErrorCode) -> Row:
    return {
        "results": [
            {
                "topic_name": topic.name,
                "partitions": [
                    {"partition_index": n, "error_code": code} for n in topic.partitions
                ],
            }
            for each in request.dirs
            for topic in each.topics
        ]
    }


def _elections(request: Any, code: ErrorCode) -> Row:
    return {
        "error_code": code,
        "replica_election_results": [
            {
                "topic": topic.topic,
                "partition_result": [
                    {"partition_id": n, "error_code": code, "error_message": SENTENCE}
                    for n in numbers(topic)
                ],
            }
            for topic in request.topic_partitions or ()
        ],
    }


def describe_cluster(asker: Asker, request: Any, inner: Handler) -> Result:
    """Everybody may; what they may do is told to those who may describe the cluster."""

    def true_operations(body: Row) -> Row:
        if body.get("cluster_authorized_operations", NOT_ASKED) != NOT_ASKED:
            body["cluster_authorized_operations"] = cluster_operations(asker)
        return body

    return then(asker.ask(request, inner), true_operations)


def cluster_operations(asker: Asker) -> int:
    if not asker.cluster(Operation.DESCRIBE, quiet=True):
        return 0
    return asker.operations(ResourceType.CLUSTER, CLUSTER_NAME)


_DESCRIBE, _ALTER = Operation.DESCRIBE, Operation.ALTER

RULES: Mapping[int, Rule] = {
    17: free,  # SaslHandshake
    18: free,  # ApiVersions
    36: free,  # SaslAuthenticate
    38: free,  # delegation tokens: the handlers refuse them to everybody
    39: free,
    40: free,
    41: free,
    71: free,  # GetTelemetrySubscriptions: who may connect may be measured, as in Kafka
    72: free,  # PushTelemetry
    29: needs(_DESCRIBE, _said),
    30: needs(_ALTER, _each("creations", "results")),
    31: needs(_ALTER, _each("filters", "filter_results")),
    34: needs(_ALTER, _log_dirs),
    35: needs(_DESCRIBE, _top),
    43: needs(_ALTER, _elections),
    45: needs(_ALTER, _reassignments),
    46: needs(_DESCRIBE, _said),
    48: needs(Operation.DESCRIBE_CONFIGS, _said),
    49: needs(Operation.ALTER_CONFIGS, _each("entries", "entries", _entity)),
    50: needs(_DESCRIBE, _described_users),
    51: needs(_ALTER, _users),
    55: needs(_DESCRIBE, _top),
    57: needs(_ALTER, _said),
    60: describe_cluster,
    64: needs(_ALTER, _said),
    74: needs(Operation.DESCRIBE_CONFIGS, _top),
    80: needs(_ALTER, _said),
    81: needs(_ALTER, _said),
}
