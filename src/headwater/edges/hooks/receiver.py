"""POST /hooks/{hook}: a webhook of another service becomes a record, which is on disk before we answer.

    body as it came ─▶ signature and time ─▶ unpacked ─▶ schema ─▶ the log, once per delivery id ─▶ 200

The sender gets no token: the signature is what lets it in. Whatever is answered with other than 200, a sender
of webhooks sends again, so a delivery is lost only when its sender gives up.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import JSONResponse, Response

from headwater.client.errors import NotThere
from headwater.client.publisher import Draft
from headwater.edges import bodies, counts, request_body
from headwater.edges.answers import problem, responses
from headwater.edges.caller import HOOK
from headwater.edges.context import Context
from headwater.edges.errors import Invalid, Overloaded
from headwater.edges.hooks.config import Hook, read
from headwater.edges.hooks.signatures import (
    Genuine,
    Incomplete,
    NotGenuine,
    Signed,
    check,
    identify,
    text_at,
)
from headwater.edges.schemas import Schemas
from headwater.errors import HeadwaterError

_ALWAYS_KEPT = ("content-type", "traceparent", "tracestate")
CHALLENGE_BYTES_MAX = 64 * 1024
_STORED = {
    "type": "object",
    "required": ["topic", "partition", "offset", "duplicate"],
    "properties": {
        "topic": {"type": "string"},
        "partition": {"type": "integer"},
        "offset": {"type": "integer"},
        "duplicate": {"type": "boolean", "description": "Stored by an earlier delivery"},
    },
}
_CHALLENGE = {"type": "object", "properties": {"challenge": {"type": "string"}}}
_ANY_BODY = {"content": {"*/*": {"schema": {"type": "string", "format": "binary"}}}}


def router(context: Context) -> APIRouter:
    hooks = {name: read(name, section) for name, section in context.edges.hooks.items()}
    schemas = Schemas.of(context)
    found = APIRouter(tags=["hooks"])

    @found.post(
        "/hooks/{hook}",
        summary="A webhook of another service, signed as its style has it",
        response_model=None,
        responses={
            200: {
                "description": "Stored; Slack's question whether we are there is answered, too",
                "content": {"application/json": {"schema": {"anyOf": [_STORED, _CHALLENGE]}}},
            },
            **responses(400, 401, 403, 404, 408, 413, 415, 422, 429, 503),
        },
        openapi_extra={"requestBody": _ANY_BODY, "security": []},
    )
    async def receive(hook: str, request: Request) -> Response:
        if hook not in hooks:
            raise NotThere(f"there is no hook {hook!r}", hint="see [edges.hooks.NAME]")
        sent = await bodies.sent(request, context.edges.limits.body_bytes)
        return await _received(context, hooks[hook], schemas, request, sent)

    return found


async def _received(
    context: Context, hook: Hook, schemas: Schemas, request: Request, sent: bytes
) -> Response:
    headers, parsed = dict(request.headers), context.parsers.parsed

    def signed() -> Signed:
        secrets, now = tuple(hook.secrets), time.time()
        return check(hook.style, secrets, headers, sent, now, hook.tolerance_s)

    try:
        by = await parsed(len(sent), signed)
        body = await bodies.content(request, sent, context.edges.limits.body_bytes)
        read = await parsed(len(body), lambda: _read(hook, by, headers, body))
        if isinstance(read, str):
            return JSONResponse({"challenge": read})
        genuine, draft = read
        value = await context.asking.run(lambda: _checked(schemas, hook.topic, body))
        store = _stored(context, hook, genuine, replace(draft, value=value))
        if genuine.id is None:
            return await store
        return await request_body.of(request.scope).while_there(store)
    except NotGenuine as error:
        counts.refused("hook", "signature")
        return problem(401, str(error), hint=error.hint)
    except Incomplete as error:
        counts.refused("hook", "incomplete")
        return problem(400, str(error), hint=error.hint)
    except HeadwaterError as error:
        counts.refused("hook", _reason(error))
        raise


async def _stored(context: Context, hook: Hook, genuine: Genuine, draft: Draft) -> Response:
    if genuine.id is None:
        (place,) = await context.appender.append(hook.topic, [draft])
        partition, offset, is_new = place.partition, place.offset, True
    else:
        # The bodies of one delivery may differ: Stripe counts in them how often it was sent.
        key = f"{HOOK}|{hook.name}|{genuine.id}"
        (span,), is_new = await context.once.append(hook.topic, key, [draft])
        partition, offset = span.partition, span.first
    if is_new:
        counts.arrived("hook", hook.topic, 1, len(draft.value or b""))
    said = {"topic": hook.topic, "partition": partition, "offset": offset}
    return JSONResponse({**said, "duplicate": not is_new})


def _read(
    hook: Hook, signed: Signed, headers: Mapping[str, str], body: bytes
) -> tuple[Genuine, Draft] | str:
    """Which delivery it is and its record to be; or the question whether we are there."""
    genuine = identify(hook.style, signed, body)
    challenge = _challenge(hook, body)
    return (genuine, _draft(hook, headers, body)) if challenge is None else challenge


def _draft(hook: Hook, headers: Mapping[str, str], body: bytes) -> Draft:
    kept = [
        (name, headers[name].encode("latin-1"))
        for name in (*_ALWAYS_KEPT, *hook.style.kept)
        if name in headers
    ]
    key = None if hook.key is None else text_at(body, hook.key)
    if hook.key is not None and key is None:
        raise Invalid(
            f"the body has no field {hook.key!r} to be the record's key",
            hint=f"see key = … of [edges.hooks.{hook.name}]",
        )
    return Draft(None if key is None else key.encode(), body, kept)


def _checked(schemas: Schemas, topic: str, body: bytes) -> bytes | None:
    """As the topic has it; in a thread, where a registry has to be asked."""
    complaint = schemas.complaint(topic, body)
    if complaint is not None:
        raise Invalid(complaint, hint=f"the topic {topic} takes what fits its schema")
    return schemas.stored(topic, body)


def _challenge(hook: Hook, body: bytes) -> str | None:
    """Slack asks so, signed, when an address is given to it."""
    if not hook.style.header.startswith("x-slack") or b"url_verification" not in body:
        return None
    if len(body) > CHALLENGE_BYTES_MAX:
        return None
    try:
        said: Any = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(said, dict) and said.get("type") == "url_verification":
        return str(said.get("challenge", ""))
    return None


def _reason(error: HeadwaterError) -> str:
    kinds = {Invalid: "invalid", Overloaded: "overloaded", NotThere: "no-topic"}
    return next((word for kind, word in kinds.items() if isinstance(error, kind)), "log")
