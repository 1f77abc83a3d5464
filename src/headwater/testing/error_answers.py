"""Kafka's errors as answers: what a broker says when a request, or one topic of it, is refused.

`broker_faults` puts these in the place of a handler's answer. Where a request is about several topics and
one of them is to fail, the handler answers for the others.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker.broker import Broker
from headwater.broker.registry import NO_ANSWER, Api, Context, Handler, Later, Response
from headwater.broker.security.rules.permission import (
    Result,
    Row,
    adding,
    only,
    partition_rows,
    topic_of,
)
from headwater.wire import messages

PRODUCE, FETCH = 0, 1


class Rows(NamedTuple):
    """Where a request has its rows, where the answer has them, and how one that failed looks."""

    asked: str
    answered: str
    row: Callable[[Any, ErrorCode], Row]


def _topic(item: Any, code: ErrorCode) -> Row:
    return {**topic_of(item), "error_code": code}


def _coordinator(key: str, code: ErrorCode) -> Row:
    return {"key": key, "error_code": code, "node_id": -1, "host": "", "port": -1}


ROWS: Mapping[int, Rows] = {
    PRODUCE: Rows(
        "topic_data",
        "responses",
        partition_rows(
            "index", "partition_responses", base_offset=-1, log_append_time=-1, log_start_offset=-1
        ),
    ),
    2: Rows("topics", "topics", partition_rows(timestamp=-1, offset=-1, leader_epoch=-1)),
    3: Rows("topics", "topics", _topic),
    8: Rows("topics", "topics", partition_rows()),
    10: Rows("coordinator_keys", "coordinators", _coordinator),
    19: Rows("topics", "topics", _topic),
    20: Rows("topics", "responses", _topic),
    28: Rows("topics", "topics", partition_rows()),
}
"""By API key: those whose answer has an error for each row. The others have one for the whole."""


def can_fail(api: Api) -> bool:
    """Whether an answer of this API, in its newest version, has a place for an error."""
    return api.key in ROWS or api.key == FETCH or messages.has_error_code(api.key, api.versions[1])


def topics_of(broker: Broker, api: Api, request: Any) -> set[str]:
    """The names of the topics that a request is about; also those that a fetch session remembers."""
    rows = ROWS.get(api.key)
    items = getattr(request, rows.asked if rows else "topics", None) or ()
    named = {_name(broker, item) for item in items}
    if api.key == FETCH:
        remembered = broker.sessions.topics_of(getattr(request, "session_id", 0))
        named |= {_name_of_session(broker, each) for each in remembered}
    return {name for name in named if name}


def error_answer(
    api: Api,
    inner: Handler,
    broker: Broker,
    request: Any,
    context: Context,
    code: ErrorCode,
    topic: str | None,
) -> Result:
    """The answer with this error: for that topic, or for all that was asked."""
    if api.key == FETCH:
        return _fetched(broker, request, context, code, topic)
    rows = ROWS.get(api.key)
    items = getattr(request, rows.asked, None) if rows else None
    if rows is None or items is None:
        return _whole(api, context, code)
    refused = [item for item in items if topic in (None, _name(broker, item))]
    others = tuple(item for item in items if item not in refused)
    if api.key == PRODUCE and request.acks == 0:
        # A client learns of it only by losing its connection, as with Kafka.
        context.connection.fail(f"acks=0 and {code.name}, as the test wants")
    failed = [rows.row(item, code) for item in refused]
    if others:
        result = inner(broker, only(request, **{rows.asked: others}), context)
        return adding(result, rows.answered, failed)
    return {rows.answered: failed}


def no_answer() -> Later:
    """The request is done with, and nothing is sent."""
    later = Later()
    later.set(NO_ANSWER)
    return later


def _whole(api: Api, context: Context, code: ErrorCode) -> Response | Later:
    if not messages.has_error_code(api.key, context.api_version):
        context.connection.fail(f"{api.name} {context.api_version} has no place for {code.name}")
        return no_answer()
    return {"error_code": code}


def _fetched(
    broker: Broker, request: Any, context: Context, code: ErrorCode, topic: str | None
) -> Response:
    """No records, and the error for one topic. The session goes on as if it had been answered."""
    by_id = context.api_version >= 13
    session, asked, error = broker.sessions.resume(request, by_id)
    if error:
        return {"error_code": error, "responses": ()}
    found: dict[Any, list[Row]] = {}
    for each in asked:
        name = _name_of_session(broker, each.topic)
        row = _empty(broker, name, each.partition)
        if topic in (None, name):
            row["error_code"] = code
        each.told = None
        found.setdefault(each.topic, []).append(row)
    key = "topic_id" if by_id else "topic"
    return {
        "session_id": 0 if session is None else session.id,
        "responses": [{key: each, "partitions": parts} for each, parts in found.items()],
    }


def _empty(broker: Broker, topic: str, number: int) -> Row:
    partition = broker.partition(topic, number)
    log = None if partition is None else partition.log
    return {
        "partition_index": number,
        "high_watermark": -1 if log is None else log.durable_offset,
        "last_stable_offset": -1 if log is None else log.last_stable_offset(),
        "log_start_offset": -1 if log is None else log.start_offset,
        "aborted_transactions": None,
        "records": b"",
    }


def _name(broker: Broker, item: Any) -> str:
    for field in ("name", "topic", "topic_name"):
        name = getattr(item, field, None)
        if name:
            return str(name)
    return _name_of_session(broker, getattr(item, "topic_id", None))


def _name_of_session(broker: Broker, topic: Any) -> str:
    """A topic by its id, or by its name."""
    if isinstance(topic, str):
        return topic
    found = broker.catalogue.by_id.get(topic)
    return "" if found is None else found.name
