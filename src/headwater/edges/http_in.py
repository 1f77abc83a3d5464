"""POST /topics/{topic}: events in by HTTP, answered with their position once they are on disk.

The body becomes records in `drafts`; they go to the log through `appender`, or, under an Idempotency-Key,
through `idempotency`. What is wrong with a request is said in the answer (`answers`), and nothing of it is
stored; with `?partial=true` the bad lines of NDJSON go to the topic's dead letters instead.

Its query is read strictly: a misspelt name is told, and not passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import orjson
from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from headwater.client import dead_letters
from headwater.client.dead_letters import Cause
from headwater.client.errors import BadRequest
from headwater.client.namespace import is_ours_to_write
from headwater.client.position import Position
from headwater.client.publisher import Draft
from headwater.edges import bodies, counts, openapi, request_body
from headwater.edges.answers import problem
from headwater.edges.caller import keys_of
from headwater.edges.context import Context
from headwater.edges.drafts import Ask, Drafts, check_single, drafts_of
from headwater.edges.errors import Forbidden
from headwater.edges.fast_path import Handler
from headwater.edges.idempotency.appender import Appended
from headwater.edges.idempotency.index import Span, spans_of
from headwater.edges.ndjson import Bad, check_path
from headwater.edges.schemas import Schema, Schemas, Subject
from headwater.errors import HeadwaterError, nearest

POSITION = "Headwater-Position"
REPLAY = "Idempotent-Replay"
WAY = "http"
BAD_LINES_MOST = 100
IDEMPOTENCY_KEY_MAX = 255
RECORD_BYTES = 1024  # as which one counts where it is decided what is done in a thread


def router(context: Context) -> APIRouter:
    """For whoever has a query; the others go past FastAPI (`fast_path`)."""
    found = APIRouter(tags=["events in"])
    handle = handler(context)

    @found.post("/topics/{topic}", **openapi.POST_TOPIC)
    async def post(request: Request) -> Response:
        return await handle(request, request.path_params["topic"])

    return found


def handler(context: Context) -> Handler:
    """What answers POST /topics/{topic}; reading parameters by FastAPI took half of a request's time."""
    sending = _Sending(context)
    limit = context.edges.limits.body_bytes

    async def handle(request: Request, topic: str) -> Response:
        try:
            return await taken(request, topic)
        except HeadwaterError as error:
            counts.refused(WAY, type(error).__name__.lower())
            raise
        except HTTPException as error:
            counts.refused(WAY, HTTPStatus(error.status_code).phrase.lower())
            raise

    async def taken(request: Request, topic: str) -> Response:
        if is_ours_to_write(topic):
            raise Forbidden(f"{topic} is the log's own", hint="other clients may, by their rights")
        query = asked(request.scope["query_string"])
        headers = request.headers
        key = headers.get("headwater-key") if query.key is None else query.key
        body = await bodies.read(request, limit)
        ask = Ask(headers, key, query.key_field)
        once = headers.get("idempotency-key")
        return await sending.send(request, topic, ask, body, once, partial=query.partial)

    return handle


class _Sending:
    """From an understood request to its answer."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._schemas = Schemas.of(context)
        self._letters: set[str] = set()
        """Topics of dead letters that are known to be there."""

    async def send(
        self,
        request: Request,
        topic: str,
        ask: Ask,
        body: bytes,
        idempotency_key: str | None,
        *,
        partial: bool,
    ) -> Response:
        await self._context.appender.topics.find(topic)  # before it is taken apart for nothing
        what = await self._drafts(ask, body, self._schemas.get(topic))
        if what.bad and not partial:
            counts.refused(WAY, "bad lines")
            return _bad_lines(what.bad, len(what))
        once = None
        if idempotency_key is not None:
            check_single(len(what), "records under an idempotency key")
            name = f"{keys_of(request)}|{topic}|{_checked_key(idempotency_key)}"
            digest = self._context.parsers.parsed(len(body), lambda: ask.digest(body))
            once = _Key(name, await digest)
        if what.bad:
            await self._put_letters(topic, what.bad, once)
        incoming = request_body.of(request.scope)
        work = self._append(topic, what, once)
        # Under a key, what is not written yet may be left: who comes again finds it or stores it.
        appended = await (work if once is None else incoming.while_there(work))
        if appended.is_new:
            counts.arrived(WAY, topic, len(what), len(body))
        return _answer(topic, what, appended)

    async def _drafts(self, ask: Ask, body: bytes, schema: Schema | Subject | None) -> Drafts:
        def drafts() -> Drafts:
            return drafts_of(ask, body, schema)

        if schema is not None and schema.is_stored_otherwise:
            # A subject's latest schema is asked for now and then, and the answer may take its time.
            return await self._context.asking.run(drafts)
        lines = body.count(b"\n")  # one of two bytes takes as long as another of a hundred
        return await self._context.parsers.parsed(len(body) + RECORD_BYTES * lines, drafts)

    async def _append(self, topic: str, what: Drafts, once: _Key | None) -> Appended:
        context = self._context
        if once is not None:
            drafts = await context.parsers.parsed(RECORD_BYTES * len(what), what.as_drafts)
            return await context.once.append(topic, once.key, drafts, digest=once.digest)
        if what.values:
            return Appended(
                await context.appender.append_values(topic, what.values, what.keys), True
            )
        return Appended(spans_of(await context.appender.append(topic, what.drafts)), True)

    async def _put_letters(self, topic: str, bad: Sequence[Bad], once: _Key | None) -> None:
        """Before the good ones: a request that ends between the two is sent again."""
        letters, log = dead_letters.beside(topic), self._context.log
        if letters not in self._letters:
            await self._context.asking.run(lambda: dead_letters.ensure(log, letters))
            self._context.appender.topics.forget(letters)
            self._letters.add(letters)
        dead = await self._context.parsers.parsed(
            RECORD_BYTES * len(bad), lambda: Drafts([_letter(topic, each) for each in bad])
        )
        beside = None if once is None else _Key(f"{once.key}|dead letters", once.digest)
        appended = await self._append(letters, dead, beside)
        if appended.is_new:
            counts.dead(WAY, topic, len(dead))


class _Key:
    """Under which a request is stored once."""

    def __init__(self, key: str, digest: str) -> None:
        self.key, self.digest = key, digest


def _checked_key(key: str) -> str:
    if not 0 < len(key) <= IDEMPOTENCY_KEY_MAX:
        raise BadRequest(f"an Idempotency-Key has 1 to {IDEMPOTENCY_KEY_MAX} characters")
    return key


def _letter(topic: str, bad: Bad) -> Draft:
    cause = Cause("headwater.http", bad.reason, topic, more={"line": str(bad.line)})
    return dead_letters.draft(None, bad.value, (), cause)


def _bad_lines(bad: Sequence[Bad], good: int) -> Response:
    first = bad[0]
    return problem(
        422,
        f"{len(bad)} of {len(bad) + good} lines are no good, and nothing is stored; "
        f"the first is line {first.line}: {first.reason}",
        hint="correct them, or store the others with ?partial=true",
        lines=_listed(bad),
    )


def _listed(bad: Sequence[Bad]) -> list[dict[str, Any]]:
    return [{"line": each.line, "reason": each.reason} for each in bad[:BAD_LINES_MOST]]


def _answer(topic: str, what: Drafts, appended: Appended) -> Response:
    spans = appended.spans
    headers = {}
    if spans:
        position = Position({topic: {span.partition: span.last + 1 for span in spans}})
        headers[POSITION] = str(position)
    if not appended.is_new:
        headers[REPLAY] = "true"
    said: dict[str, Any] = {"topic": topic}
    if what.is_bulk:
        said |= {"records": len(what), "ranges": [_range(span) for span in spans]}
    else:
        said |= {"partition": spans[0].partition, "offset": spans[0].first}
    if what.bad:
        said |= {
            "refused": len(what.bad),
            "lines": _listed(what.bad),
            "letters": dead_letters.beside(topic),
        }
    return Response(orjson.dumps(said), headers=headers, media_type="application/json")


def _range(span: Span) -> dict[str, int]:
    return dict(span._asdict())


_NAMES = ("key", "key_field", "partial")
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


class Query(NamedTuple):
    key: str | None = None
    key_field: str | None = None
    partial: bool = False


_NOTHING = Query()


def asked(text: bytes) -> Query:
    """Raises Misunderstood."""
    if not text:
        return _NOTHING
    try:
        pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise BadRequest("the query is no UTF-8 in percent signs") from None
    given = dict(pairs)
    for name in given:
        if name not in _NAMES:
            raise BadRequest(f"there is no parameter {name[:50]!r}{nearest(name, _NAMES)}")
    if len(pairs) > len(given):
        raise BadRequest("a parameter is given twice")
    if given.get("key_field") == "":
        raise BadRequest("key_field is empty", hint="name a field, as in key_field=id")
    check_path(given.get("key_field", ""))
    partial = given.get("partial", "false").lower()
    if partial not in _TRUTH:
        raise BadRequest(f"partial is true or false, not {partial[:50]!r}")
    return Query(given.get("key"), given.get("key_field"), _TRUTH[partial])
