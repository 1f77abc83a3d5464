"""Rules for what members of groups subscribe to and are assigned, where the broker assigns."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import Any

from kio.schema.errors import ErrorCode

from headwater.broker.groups import subscription
from headwater.broker.groups.consumer import topic_regex
from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.registry import Handler, Response
from headwater.broker.security.acls import Operation
from headwater.broker.security.rules.permission import (
    GROUP_REFUSED,
    TOPIC_REFUSED,
    Asker,
    Result,
    Row,
    answered,
    then,
)
from headwater.fair_queue import Busy

_O = Operation


async def _by_expression(asker: Asker, request: Any, inner: Handler) -> Response:
    """Kafka leaves out what the member may not describe; here such an expression is refused, so that it
    never shows more than a list of names could."""
    groups = asker.broker.groups
    hears = groups.hears(request.group_id, request.member_id, request.member_epoch)
    matched = await _matched(asker, request.subscribed_topic_regex, hears)
    if matched is None:
        busy, unknown = ErrorCode.coordinator_load_in_progress, ErrorCode.unknown_member_id
        return {"error_code": busy if hears else unknown}
    return await _subscribing(asker, request, inner, matched)


async def _matched(asker: Asker, expression: str, looks: bool) -> Collection[str] | None:
    """What an expression means now; None where that is too much to look up, or for now."""
    topics = asker.broker.catalogue.topics
    known = topic_regex.compiled(expression)
    if looks:
        aside = partial(asker.broker.expressions.run, asker.context.client_host)
        try:
            await topic_regex.look(aside, [expression], topics)
        except Busy:
            return None
    names = topic_regex.names_of(topics)
    try:
        return sorted(known.among(names)) if topic_regex.Budget().allows(known, names) else None
    except topic_regex.BadRegex:
        return ()  # the handler says so


def heartbeat(asker: Asker, request: Any, inner: Handler) -> Result:
    """ConsumerGroupHeartbeat, ShareGroupHeartbeat: Read on the group, Describe on what is named."""
    if not asker.group(_O.READ, request.group_id):
        return {"error_code": GROUP_REFUSED, "error_message": "Group authorization failed."}
    if getattr(request, "subscribed_topic_regex", None):
        return _by_expression(asker, request, inner)
    return _subscribing(asker, request, inner, ())


async def _subscribing(
    asker: Asker, request: Any, inner: Handler, matched: Collection[str]
) -> Response:
    if not await may_describe(asker, (*(request.subscribed_topic_names or ()), *matched)):
        return {"error_code": TOPIC_REFUSED, "error_message": "Topic authorization failed."}
    body = await answered(asker.ask(request, inner))
    assignment = body.get("assignment")
    if assignment is None:
        return body
    # A right may be gone, and a topic have come, since the member said what it wants.
    rows = [
        row async for row in asker.each(assignment["topic_partitions"]) if _may_describe(asker, row)
    ]
    return {**body, "assignment": {**assignment, "topic_partitions": rows}}


async def may_describe(asker: Asker, names: Iterable[str]) -> bool:
    """Whether all of these topics; a client may name very many."""
    async for name in asker.each(names):
        if not asker.topic(_O.DESCRIBE, name):
            return False
    return True


def _may_describe(asker: Asker, row: Row) -> bool:
    topic = asker.broker.catalogue.by_id.get(row["topic_id"])
    return topic is not None and asker.topic(_O.DESCRIBE, topic.name, quiet=True)


def sync(asker: Asker, request: Any, inner: Handler) -> Result:
    """Read on the group. Where the broker assigns, a classic member hears of what it may describe only: its
    subscription is bytes, which nobody has looked at."""
    if not asker.group(_O.READ, request.group_id):
        return {"error_code": GROUP_REFUSED}
    group = asker.broker.groups.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        return asker.ask(request, inner)

    def shown(body: Row) -> Row:
        data = body.get("assignment")
        if not data:
            return body
        held = subscription.read_assignment(data)
        seen = {name: held[name] for name in held if asker.topic(_O.DESCRIBE, name, quiet=True)}
        version = int.from_bytes(data[:2], "big")
        return {**body, "assignment": subscription.write_assignment(version, seen)}

    return then(asker.ask(request, inner), shown)
