"""One request, from its head to its answer: host, token, limits, path, body, handler. An ASGI application.

What goes wrong is answered in Confluent's form, `{"error_code": …, "message": …}`. What is our own mistake
is uvicorn's: told in the log, and answered 500.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from headwater.edges.allowance import Allowance, Rates
from headwater.edges.answer_body import PIECE_BYTES, Outgoing
from headwater.edges.caller import SENDER, address_of
from headwater.edges.config import Limits
from headwater.edges.errors import Overloaded, TooLarge
from headwater.edges.memory_share import MemoryShare
from headwater.edges.registry import routes
from headwater.edges.registry.access import Token, Tokens
from headwater.edges.registry.call import Call, ForAThread
from headwater.edges.registry.config import RegistryConfig
from headwater.edges.registry.routes import Route
from headwater.edges.request_body import Incoming
from headwater.edges.workers import LARGE_BYTES, Workers
from headwater.errors import HeadwaterError
from headwater.project.ports import host_of, is_loopback, same_origin
from headwater.schemas.bounds import strict_json
from headwater.schemas.errors import RegistryError, store_failed
from headwater.schemas.sandbox import PROCESSES
from headwater.schemas.store import Store

BODY_BYTES_MAX = 4 * 1024**2
HELD_BYTES_MAX = 16 * 1024**2
"""Of all bodies; parsed they are twenty times as large."""
ANSWERS_BYTES_MAX = 128 * 1024**2
"""Of all answers that their clients have not taken yet: one may have all that is registered."""
SLOW_S = 30.0
QUERY_FIELDS_MAX = 50
WORKERS = 8
AT_ONCE = PROCESSES // 2
"""Threads that one token may have: whoever asks what takes long holds up nobody else."""
WRONG_PER_SECOND = 20.0
"""Wrong tokens from one address."""
PAGED = "ask for less at once, by offset and limit"
_TYPE = "application/vnd.schemaregistry.v1+json"
_Headers = Mapping[bytes, bytes]


class App:
    def __init__(self, store: Store, config: RegistryConfig, *, loopback_only: bool) -> None:
        self._store = store
        self._tokens = Tokens(config.tokens)
        self._loopback_only = loopback_only
        self._held = MemoryShare(HELD_BYTES_MAX)
        self._answers = MemoryShare(
            ANSWERS_BYTES_MAX, "too much that was asked for waits to be taken"
        )
        self._workers = Workers(WORKERS, AT_ONCE if self._tokens else WORKERS, "schemas")
        self._allowance = Allowance(Limits())
        self._wrong = Rates(WRONG_PER_SECOND)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        headers: _Headers = dict(scope["headers"])
        expects = b"expect" in headers
        incoming = Incoming(receive, self._held, BODY_BYTES_MAX, SLOW_S, expects=expects)
        more: list[tuple[bytes, bytes]] = []
        answer: bytes | dict[str, object]
        sent: Outgoing | None = None
        try:
            status, answer = 200, _bytes(await self._answer(scope, headers, incoming))
            if len(answer) > PIECE_BYTES:
                self._answers.take(len(answer))
                sent = Outgoing(answer, _kind(headers), self._answers, SLOW_S)
        except RegistryError as error:
            status, answer = error.status, {"error_code": error.code, "message": error.sentence}
        except HTTPException as error:
            status = error.status_code
            answer = {"error_code": status, "message": error.detail}
        except Overloaded as error:
            status, answer = 429, {"error_code": 42901, "message": error.sentence}
            more.append((b"retry-after", str(int(error.retry_after) + 1).encode()))
        except TooLarge as error:
            status, answer = 413, {"error_code": 41301, "message": f"{error.sentence}: {PAGED}"}
        except HeadwaterError as error:
            status, answer = 500, {"error_code": 50001, "message": error.sentence}
        finally:
            incoming.release()
        if sent is not None:
            sent.headers.update({"x-content-type-options": "nosniff", "cache-control": "no-store"})
            await sent(scope, receive, send)
            return
        if status == 401:
            more.append((b"www-authenticate", b'Basic realm="schemas"'))
        await _send(send, status, answer, headers, more)

    async def _answer(self, scope: Scope, headers: _Headers, incoming: Incoming) -> object:
        self._check_place(headers)
        token = None
        if self._tokens and scope["path"] != "/healthz":
            token = self._token(scope, headers)
        sender = address_of(scope) if token is None else f"token {token.name}"
        over = self._allowance.begin(sender, time.monotonic())
        if over is not None:
            raise Overloaded(over.sentence, over.wait_s)
        SENDER.set(sender)
        try:
            return await self._allowed(scope, headers, incoming, token)
        finally:
            self._allowance.used(sender, incoming.bytes, time.monotonic())
            self._allowance.end(sender)

    async def _allowed(
        self, scope: Scope, headers: _Headers, incoming: Incoming, token: Token | None
    ) -> object:
        found = routes.find(scope.get("raw_path") or scope["path"].encode())
        if not found.methods:
            raise RegistryError(404, "HTTP 404 Not Found")
        route = found.methods.get("GET" if scope["method"] == "HEAD" else scope["method"])
        if route is None:
            raise RegistryError(405, "HTTP 405 Method Not Allowed")
        query = _query(scope["query_string"])
        has_body = scope["method"] in ("POST", "PUT")
        body = await self._taken_apart(await _sent(incoming, headers)) if has_body else {}
        call = Call(self._store, found.names, query, body, found.context, token)
        return await self._handled(route, call)

    async def _handled(self, route: Route, call: Call) -> object:
        try:
            if route.where == routes.LOOP and "format" not in call.query:
                with suppress(ForAThread):
                    return route.handler(call)
            return await self._in_thread(route.handler, call)
        except RegistryError as error:
            if error.status != 404 or error.code == 404:
                raise
        await self._workers.run(self._store.refresh)
        return await self._in_thread(route.handler, call)

    async def _taken_apart(self, body: bytes) -> Mapping[str, object]:
        return (
            _read(body) if len(body) < LARGE_BYTES else await self._workers.run(lambda: _read(body))
        )

    async def _in_thread(self, handler: routes.Handler, call: Call) -> object:
        """With its answer's text: all that is registered may be in it."""
        return await self._workers.run(lambda: _bytes(handler(call)))

    def _check_place(self, headers: _Headers) -> None:
        host = headers.get(b"host", b"").decode("latin-1")
        if self._loopback_only and not is_loopback(host_of(host)):
            raise RegistryError(403, f"{host[:100]!r} is no name of this machine")
        origin = headers.get(b"origin")
        if origin is not None and not same_origin(origin.decode("latin-1"), host):
            raise RegistryError(403, "pages of other places may not call this")

    def _token(self, scope: Scope, headers: _Headers) -> Token:
        found = self._tokens.find(headers.get(b"authorization", b"").decode("latin-1"))
        if found is None:
            wait_s = self._wrong.wait_s(address_of(scope), time.monotonic())
            if wait_s:
                raise Overloaded("too many wrong tokens from one address", wait_s)
            raise RegistryError(401, "Unauthorized")
        return found


def _query(text: bytes) -> dict[str, str]:
    try:
        # `subjectPrefix=` without a value asks for those of the default context.
        found = parse_qsl(
            text.decode("latin-1"), keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX
        )
        return dict(found)
    except ValueError as error:
        raise RegistryError(400, f"the query is not understood: {error}") from None


async def _sent(incoming: Incoming, headers: _Headers) -> bytes:
    length = headers.get(b"content-length", b"")
    if length.isdigit() and int(length) > BODY_BYTES_MAX:
        await incoming.drain()
        raise HTTPException(413, f"the body has more than {BODY_BYTES_MAX} bytes")
    parts = []
    while True:
        message = await incoming.receive()
        if message["type"] == "http.disconnect":
            raise store_failed("the client has gone")
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            break
    return b"".join(parts)


def _read(body: bytes) -> Mapping[str, object]:
    try:
        found = strict_json(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise RegistryError(400, f"the body is no JSON: {error}") from None
    if not isinstance(found, dict):
        raise RegistryError(400, "the body is no JSON object")
    return found


async def _send(
    send: Send, status: int, answer: object, headers: _Headers, more: list[tuple[bytes, bytes]]
) -> None:
    body = _bytes(answer)
    head = [(b"content-type", _kind(headers).encode()), (b"content-length", str(len(body)).encode()),
            (b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store"), *more]  # fmt: skip
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


def _kind(headers: _Headers) -> str:
    accept = headers.get(b"accept", b"*/*")
    wants_plain = b"schemaregistry" not in accept and b"*/*" not in accept and b"json" in accept
    return "application/json" if wants_plain else _TYPE


def _bytes(answer: object) -> bytes:
    return answer if isinstance(answer, bytes) else _text(answer).encode("utf-8", "replace")


def _text(answer: object) -> str:
    """The text of a schema goes out as it is; everything else is JSON."""
    return answer if isinstance(answer, str) else json.dumps(answer, separators=(",", ":"))


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
