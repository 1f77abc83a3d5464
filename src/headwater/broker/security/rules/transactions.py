"""Rules for producers' ids and transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Handler, Response
from headwater.broker.security.acls import Operation, ResourceType
from headwater.broker.security.rules.permission import (
    CLUSTER_REFUSED,
    GROUP_REFUSED,
    TOPIC_REFUSED,
    TRANSACTION_REFUSED,
    Asker,
    Result,
    Row,
    Rule,
    adding,
    answered,
    only,
    partition_rows,
    showing,
    then,
)

_O = Operation
_committed = partition_rows()
NO_PRODUCER = {"producer_id": -1, "producer_epoch": -1}


def init_producer_id(asker: Asker, request: Any, inner: Handler) -> Result:
    """Write on the transactional id; without one, leave to write at all (KIP-679)."""
    name = request.transactional_id
    if name is not None:
        if not asker.transaction(_O.WRITE, name):
            return {"error_code": TRANSACTION_REFUSED, **NO_PRODUCER}
        if getattr(request, "enable2_pc", False) and not asker.transaction(
            _O.TWO_PHASE_COMMIT, name
        ):
            return {"error_code": TRANSACTION_REFUSED, **NO_PRODUCER}
    elif not asker.cluster(_O.IDEMPOTENT_WRITE, quiet=True):
        return _where_it_may_write(asker, request, inner)
    return asker.ask(request, inner)


async def _where_it_may_write(asker: Asker, request: object, inner: Handler) -> Response:
    if await asker.somewhere(_O.WRITE, ResourceType.TOPIC):
        return await answered(asker.ask(request, inner))
    asker.cluster(_O.IDEMPOTENT_WRITE)  # so that the log has it
    return {"error_code": CLUSTER_REFUSED, **NO_PRODUCER}


def add_partitions(asker: Asker, request: Any, inner: Handler) -> Result:
    """Clients: Write on id and topics, all or nothing. Versions for brokers: ClusterAction."""
    if asker.version >= 4:
        if asker.cluster(_O.CLUSTER_ACTION):
            return asker.ask(request, inner)
        return {"error_code": CLUSTER_REFUSED, "results_by_transaction": ()}
    topics = request.v3_and_below_topics
    if not asker.transaction(_O.WRITE, request.v3_and_below_transactional_id):
        return _added([(item, TRANSACTION_REFUSED) for item in topics])
    allowed, refused = asker.split(_O.WRITE, topics)
    if not refused:
        return asker.ask(request, inner)
    return _added(
        [(item, TOPIC_REFUSED) for item in refused]
        + [(item, ErrorCode.operation_not_attempted) for item in allowed]
    )


def _added(outcomes: list[tuple[Any, ErrorCode]]) -> Row:
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": item.name,
                "results_by_partition": [
                    {"partition_index": n, "partition_error_code": code} for n in item.partitions
                ],
            }
            for item, code in outcomes
        ]
    }


def add_offsets(asker: Asker, request: Any, inner: Handler) -> Result:
    if not asker.transaction(_O.WRITE, request.transactional_id):
        return {"error_code": TRANSACTION_REFUSED}
    if not asker.group(_O.READ, request.group_id):
        return {"error_code": GROUP_REFUSED}
    return asker.ask(request, inner)


def end_transaction(asker: Asker, request: Any, inner: Handler) -> Result:
    if not asker.transaction(_O.WRITE, request.transactional_id):
        return {"error_code": TRANSACTION_REFUSED, **NO_PRODUCER}
    return asker.ask(request, inner)


def write_markers(asker: Asker, request: Any, inner: Handler) -> Result:
    """For brokers, and for somebody who ends a hanging transaction by hand."""
    if asker.cluster(_O.ALTER, quiet=True) or asker.cluster(_O.CLUSTER_ACTION):
        return asker.ask(request, inner)
    return {
        "markers": [
            {
                "producer_id": marker.producer_id,
                "topics": [_committed(topic, CLUSTER_REFUSED) for topic in marker.topics],
            }
            for marker in request.markers
        ]
    }


def commit_offsets(asker: Asker, request: Any, inner: Handler) -> Result:
    """Write on the id, Read on the group and on each topic."""
    if not asker.transaction(_O.WRITE, request.transactional_id):
        return {"topics": [_committed(item, TRANSACTION_REFUSED) for item in request.topics]}
    if not asker.group(_O.READ, request.group_id):
        return {"topics": [_committed(item, GROUP_REFUSED) for item in request.topics]}
    allowed, refused = asker.split(_O.READ, request.topics)
    rows = [_committed(item, TOPIC_REFUSED) for item in refused]
    if rows and not allowed:
        return {"topics": rows}
    return adding(asker.ask(only(request, topics=tuple(allowed)), inner), "topics", rows)


def describe_transactions(asker: Asker, request: Any, inner: Handler) -> Result:
    """Describe on each id; topics that one may not describe are left out."""
    ids = request.transactional_ids
    allowed = [name for name in ids if asker.transaction(_O.DESCRIBE, name)]
    rows = [
        {"transactional_id": name, "error_code": TRANSACTION_REFUSED, **_NOTHING}
        for name in ids
        if name not in allowed
    ]

    def shown(body: Row) -> Row:
        states = [_without_hidden(asker, row) for row in body["transaction_states"]]
        return {**body, "transaction_states": [*states, *rows]}

    return then(asker.ask(only(request, transactional_ids=tuple(allowed)), inner), shown)


_NOTHING = {"transaction_state": "", "producer_id": 0, "producer_epoch": 0}


def _without_hidden(asker: Asker, row: Row) -> Row:
    topics = [t for t in row.get("topics", ()) if asker.topic(_O.DESCRIBE, t["topic"], quiet=True)]
    return {**row, "topics": topics}


def list_transactions(asker: Asker, request: Any, inner: Handler) -> Result:
    def may_see(row: Row) -> bool:
        return asker.transaction(_O.DESCRIBE, row["transactional_id"], quiet=True)

    return showing(asker, asker.ask(request, inner), "transaction_states", may_see)


RULES: Mapping[int, Rule] = {
    22: init_producer_id,
    24: add_partitions,
    25: add_offsets,
    26: end_transaction,
    27: write_markers,
    28: commit_offsets,
    65: describe_transactions,
    66: list_transactions,
}
