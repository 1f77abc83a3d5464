"""The guard: every request and every websocket passes here before its handler. In this order:

    host      on the loopback, only names of the loopback (DNS rebinding)
    origin    a page of another place must be in `origins`; its preflights are answered here
    token     where there are tokens or an issuer: known, and with the scope that the path needs
    limits    of a token or principal, or of an address where there are none (`allowance`)
    body      size and time (`request_body`)

Wrapped around the application by `app`. A handler finds who asks with `caller.who(request)`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from math import ceil, inf
from urllib.parse import parse_qs

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.edges import counts, request_body
from headwater.edges.allowance import Allowance, Rates
from headwater.edges.answers import of_error, problem
from headwater.edges.caller import SENDER, STANDS, TOKEN, address_of
from headwater.edges.context import Context
from headwater.edges.errors import BadToken, Overloaded
from headwater.edges.memory_share import MemoryShare
from headwater.edges.oidc import Bearers
from headwater.edges.request_body import Incoming, too_large
from headwater.edges.tokens import Token, Tokens, needed
from headwater.edges.tokens import check as check
from headwater.errors import HeadwaterError
from headwater.project.ports import host_of, is_loopback, same_origin

HELD_BYTES = 4
"""All bodies together may have so many times the bytes of the largest one."""
PREFLIGHT_S = 600
WRONG_PER_SECOND = 20.0
"""Wrong tokens from one address, before it is told to wait; right ones are not held up by them."""
_SAID = [(b"x-content-type-options", b"nosniff")]
_NOT_KEPT = (b"cache-control", b"no-store")  # by nobody: the token may stand in the address
_ALLOWED = b"access-control-allow-origin"
_CORS = [
    (b"access-control-expose-headers", b"Headwater-Position, Idempotent-Replay, Retry-After"),
    (b"vary", b"Origin"),
]
_SENDER = "headwater.sender"
_Headers = Mapping[bytes, bytes]
_NAMES = re.compile(r"[A-Za-z0-9_-]+(\s*,\s*[A-Za-z0-9_-]+)*")


def left_s(scope: Scope) -> float | None:
    """After how long what was shown is good no more; None: never."""
    token = scope.get(TOKEN)
    return None if token is None or token.ends_at == inf else token.ends_at - time.monotonic()


class Guard:
    """An ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        context: Context,
        *,
        loopback_only: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        edges = context.edges
        self.app = app
        self._origins = frozenset(edges.origins)
        self._limits = edges.limits
        self._loopback_only = loopback_only
        self._tokens = Tokens(edges.tokens)
        self._bearers = Bearers(edges.oidc) if edges.oidc is not None else None
        self._allowance = Allowance(edges.limits)
        self._wrong = Rates(WRONG_PER_SECOND)
        self._held = MemoryShare(HELD_BYTES * edges.limits.body_bytes + edges.limits.waiting_bytes)
        self._parsers = context.parsers
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers: _Headers = dict(scope["headers"])
        origin = headers.get(b"origin")
        is_cross = origin is not None and origin.decode("latin-1").lower() in self._origins
        send = _with_headers(send, origin if is_cross else None)
        refusal = await self._refusal(scope, headers, origin, is_cross=is_cross)
        sender = scope.pop(_SENDER, None)
        if sender is not None:
            SENDER.set(sender)
            receive, send = self._counted(sender, receive, send)
        try:
            if scope["type"] == "websocket":
                await self._websocket(scope, receive, send, refusal)
            else:
                await self._http(scope, receive, send, headers, refusal)
        finally:
            if sender is not None:
                self._allowance.end(sender)

    def _counted(self, sender: str, receive: Receive, send: Send) -> tuple[Receive, Send]:
        """What comes and goes is the sender's."""

        def count(message: Message) -> Message:
            carried = message.get("body") or message.get("bytes") or message.get("text") or b""
            self._allowance.used(sender, len(carried), self._clock())
            return message

        async def receiving() -> Message:
            return count(await receive())

        async def sending(message: Message) -> None:
            await send(count(message))

        return receiving, sending

    async def _http(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        headers: _Headers,
        refusal: Response | None,
    ) -> None:
        limits = self._limits
        incoming = Incoming(
            receive,
            self._held,
            limits.body_bytes,
            limits.slow_seconds,
            parsers=self._parsers,
            expects=b"expect" in headers,
        )
        request_body.leave(incoming, scope)
        if refusal is None and _length(headers) > limits.body_bytes:
            counts.refused("http", "too large")
            await incoming.drain()
            too = too_large(limits.body_bytes)
            refusal = problem(413, too.detail, headers=too.headers)
        try:
            await (refusal or self.app)(scope, incoming.receive, send)
        finally:
            incoming.release()

    async def _websocket(
        self, scope: Scope, receive: Receive, send: Send, refusal: Response | None
    ) -> None:
        if refusal is None:
            await self.app(scope, receive, send)
            return
        await receive()
        if "websocket.http.response" in scope.get("extensions", {}):
            await refusal(scope, receive, send)  # Starlette says it in the websocket's words
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _refusal(
        self, scope: Scope, headers: _Headers, origin: bytes | None, *, is_cross: bool
    ) -> Response | None:
        """The answer, where the request ends here."""
        host = headers.get(b"host", b"").decode("latin-1")
        if self._loopback_only and not is_loopback(host_of(host)):
            return _refused("host", f"{host[:100]!r} is no name of this machine")
        if origin is not None and not is_cross and not same_origin(origin.decode("latin-1"), host):
            said = f"pages of {origin[:100].decode('latin-1')!r} may not call this"
            return _refused("origin", said, "list it in origins = […] under [edges]")
        if is_cross and _is_preflight(scope, headers):
            return _preflight(headers)
        try:
            sender = await self._sender(scope, headers)
            over = self._allowance.begin(sender, self._clock())
            if over is not None:
                raise Overloaded(over.sentence, ceil(over.wait_s))
            scope[_SENDER] = sender
        except BadToken as error:
            counts.refused("http", "badtoken")
            wait_s = self._wrong.wait_s(address_of(scope), self._clock())
            often = Overloaded("too many wrong tokens from one address", ceil(wait_s))
            return of_error(often if wait_s else error)
        except HeadwaterError as error:
            counts.refused("http", type(error).__name__.lower())
            return of_error(error)
        return None

    async def _sender(self, scope: Scope, headers: _Headers) -> str:
        """Whose request it is, once it is known to be allowed."""
        method = scope["method"] if scope["type"] == "http" else "WEBSOCKET"
        asks = bool(self._tokens) or self._bearers is not None
        need = needed(method, scope["path"]) if asks else None
        if need is None:
            return address_of(scope)
        token = await self._token(scope, headers, method)
        if not token.may(need):
            raise token.refused(need)
        scope[TOKEN] = token
        return f"token {token.name}"

    async def _token(self, scope: Scope, headers: _Headers, method: str) -> Token:
        shown = headers.get(b"authorization", b"").decode("latin-1")
        kind, _, secret = shown.partition(" ")
        if not secret and method in ("GET", "WEBSOCKET"):
            # EventSource and WebSocket of a browser can send no header (RFC 6750, 2.3).
            query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
            kind, secret = "bearer", query.get("access_token", [""])[-1]
        if kind.lower() != "bearer" or not secret:
            raise BadToken("a token is needed", hint="send the header Authorization: Bearer SECRET")
        token = self._tokens.find(secret.strip())
        if token is not None and (stands := self._tokens.standing(secret.strip(), token)):
            scope[STANDS] = stands
        if token is None and self._bearers is not None and secret.count(".") == 2:
            token = await self._bearers.find(secret.strip())
        if token is None:
            raise BadToken("the token is unknown", hint="is it that of [edges.tokens]?")
        return token


def _refused(reason: str, sentence: str, hint: str | None = None) -> Response:
    counts.refused("http", reason)
    return problem(403, sentence, hint=hint)


def _is_preflight(scope: Scope, headers: _Headers) -> bool:
    return scope.get("method") == "OPTIONS" and b"access-control-request-method" in headers


def _preflight(headers: _Headers) -> Response:
    answer = Response(status_code=204)
    answer.headers["Access-Control-Allow-Methods"] = "GET, POST, PUT, PATCH, DELETE"
    answer.headers["Access-Control-Max-Age"] = str(PREFLIGHT_S)
    wanted = headers.get(b"access-control-request-headers", b"").decode("latin-1")
    if _NAMES.fullmatch(wanted):
        answer.headers["Access-Control-Allow-Headers"] = wanted
    if b"access-control-request-private-network" in headers:
        answer.headers["Access-Control-Allow-Private-Network"] = "true"
    return answer


def _length(headers: _Headers) -> int:
    said = headers.get(b"content-length", b"")
    return int(said) if said.isdigit() else 0


def _with_headers(send: Send, origin: bytes | None) -> Send:
    """What every answer says; with `origin`, also that its pages may read it."""

    async def sending(message: Message) -> None:
        if message["type"] in ("http.response.start", "websocket.http.response.start"):
            own, more = message.get("headers", ()), list(_SAID)
            if all(name != b"cache-control" for name, _ in own):
                more.append(_NOT_KEPT)
            more += [] if origin is None else [*_CORS, (_ALLOWED, origin)]
            message["headers"] = [*own, *more]
        await send(message)

    return sending
