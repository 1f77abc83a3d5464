"""Rules for writing and reading records: Produce, Fetch, ListOffsets and what goes with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.registry import NO_ANSWER, Handler, Later
from headwater.broker.security.acls import Operation
from headwater.broker.security.rules.permission import (
    TOPIC_REFUSED,
    TRANSACTION_REFUSED,
    Asker,
    Result,
    Row,
    Rule,
    adding,
    by_topic,
    numbers,
    only,
    partition_rows,
    then,
    topic_of,
)

_produced = partition_rows(
    "index", "partition_responses", base_offset=-1, log_append_time=-1, log_start_offset=-1
)


def produce(asker: Asker, request: Any, inner: Handler) -> Result:
    """Write to the topic; with a transactional id, also with that."""
    name = request.transactional_id
    if (not asker.transaction(Operation.WRITE, name)) if name else _is_transactional(request):
        rows = [_produced(item, TRANSACTION_REFUSED) for item in request.topic_data]
        return _answered(asker, request, rows)
    allowed, refused = asker.split(Operation.WRITE, request.topic_data)
    if not refused:
        return asker.ask(request, inner)
    rows = [_produced(item, TOPIC_REFUSED) for item in refused]
    if not allowed:
        return _answered(asker, request, rows)
    if request.acks == 0:
        asker.context.connection.fail("acks=0 and topic_authorization_failed")
    return adding(asker.ask(only(request, topic_data=tuple(allowed)), inner), "responses", rows)


def _is_transactional(request: Any) -> bool:
    """Whether a batch says that it belongs to a transaction (bit 4 of its attributes)."""
    return any(
        part.records and len(part.records) > 22 and part.records[22] & 0x10
        for topic in request.topic_data
        for part in topic.partition_data
    )


def _answered(asker: Asker, request: Any, rows: list[Row]) -> Result:
    if request.acks != 0:
        return {"responses": rows}
    # With acks=0 a client learns of an error only by losing its connection, as with Kafka.
    asker.context.connection.fail("acks=0 and not authorized")
    later = Later()
    later.set(NO_ANSWER)
    return later


def fetch(asker: Asker, request: Any, inner: Handler) -> Result:
    """Read from the topic. A session (KIP-227) only ever holds what its client may read.

    So where something is refused, a request that goes on with a session is told that there is none:
    the client then asks for everything anew, and gets that answered without a session. What has waited
    is looked at again when it is answered: a permission may have been taken away meanwhile.
    """
    if _replica(request) >= 0 and not asker.cluster(Operation.CLUSTER_ACTION):
        return {"error_code": ErrorCode.cluster_authorization_failed, "responses": ()}
    sessions = asker.broker.sessions
    session_id = getattr(request, "session_id", 0)
    remembered = sessions.topics_of(session_id) if session_id else ()
    by_id = asker.version >= 13
    known = all(
        name is None or asker.topic(Operation.READ, name)
        for name in (_name(asker, topic, by_id) for topic in remembered)
    )
    allowed, refused = asker.split(Operation.READ, request.topics)
    if known and not refused:
        return _looked_at_again(asker, asker.ask(request, inner), by_id)
    if session_id:
        sessions.forget(session_id)
        if request.session_epoch > 0:
            return {"error_code": ErrorCode.fetch_session_id_not_found, "responses": ()}
    alone = {"session_id": 0, "session_epoch": -1} if hasattr(request, "session_id") else {}
    result = asker.ask(only(request, topics=tuple(allowed), **alone), inner)
    result = _looked_at_again(asker, result, by_id)
    return adding(result, "responses", [_fetched(item) for item in refused])


def _looked_at_again(asker: Asker, result: Result, by_id: bool) -> Result:
    """An answer that did not come at once, without what the client may not read any more."""

    def readable(body: Row) -> Row:
        shown, is_hidden = [], False
        for row in body.get("responses", ()):
            name = _name(asker, row["topic_id" if by_id else "topic"], by_id)
            if name is not None and not asker.topic(Operation.READ, name):
                is_hidden = True
                row = {
                    **row,
                    "partitions": [_hidden(p["partition_index"]) for p in row["partitions"]],
                }
            shown.append(row)
        if not is_hidden:
            return body
        if session_id := body.get("session_id"):
            asker.broker.sessions.forget(session_id)
        return {**body, "responses": shown}

    return result if isinstance(result, dict) else then(result, readable)


def _replica(request: Any) -> int:
    state = getattr(request, "replica_state", None)
    return int(getattr(request, "replica_id", -1) if state is None else state.replica_id)


def _name(asker: Asker, topic: Any, by_id: bool) -> str | None:
    if not by_id:
        return str(topic)
    found = asker.broker.catalogue.by_id.get(topic)
    return None if found is None else found.name


def _fetched(item: Any) -> Row:
    return {
        **topic_of(item),
        "partitions": [_hidden(number) for number in numbers(item)],
    }


def _hidden(number: int) -> Row:
    return {
        "partition_index": number,
        "error_code": TOPIC_REFUSED,
        "high_watermark": -1,
        "last_stable_offset": -1,
        "log_start_offset": -1,
        "aborted_transactions": None,
        "records": b"",
    }


_epochs = by_topic(Operation.DESCRIBE, partition_rows("partition", leader_epoch=-1, end_offset=-1))

RULES: Mapping[int, Rule] = {
    0: produce,
    1: fetch,
    2: by_topic(Operation.DESCRIBE, partition_rows(timestamp=-1, offset=-1, leader_epoch=-1)),
    21: by_topic(Operation.DELETE, partition_rows(low_watermark=-1)),
    23: _epochs,
    61: by_topic(Operation.READ, partition_rows(error_message="Topic authorization failed.")),
}
