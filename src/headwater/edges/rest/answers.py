"""Answers in the form of Confluent's REST proxy: lists with links, and errors as `error_code` and `message`.

`ErrorForm` stands around the whole application, so that what the guard refuses has the form, too:

    {"error_code": 40401, "message": "there is no topic 'ordres'; headwater topics list shows …"}
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import quote

import msgspec
import orjson
from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.edges import bodies
from headwater.edges.answer_body import counted
from headwater.edges.answers import MEDIA_TYPE, problem

V3 = "application/json"
V2 = "application/vnd.kafka.v2+json"
BODY_BYTES_MAX = 1024**2
"""Of what is no record."""
ERROR_SCHEMA = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {
        "error_code": {"type": "integer", "description": "The status, or one of five digits"},
        "message": {"type": "string", "description": "What is wrong, and what to do next"},
    },
}
_PREFIXES = ("/v3/", "/consumers/")
_V2_BODY = b"application/vnd.kafka."
_OF_THE_GUARD = (400, 401, 403, 404, 408, 413, 422, 429, 503)
Json = dict[str, object]
Shape = TypeVar("Shape")


class RestError(HTTPException):
    """With the code that clients of such a proxy know: its first three digits are the status."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(code if code < 1000 else code // 100, sentence)
        self.code = code


async def refusal(_request: Request, error: Exception) -> Response:
    """For FastAPI: what a handler raised, on its way to `ErrorForm`."""
    assert isinstance(error, RestError)
    return problem(error.status_code, str(error.detail), error_code=error.code)


def _is_of_proxy(path: str) -> bool:
    return path == "/topics" or path.startswith(_PREFIXES)


def is_v2(scope: Scope) -> bool:
    """Whether it is a body of that proxy's, at a route that others have, too."""
    kinds = (value for name, value in scope["headers"] if name == b"content-type")
    return scope["method"] == "POST" and next(kinds, b"").strip().lower().startswith(_V2_BODY)


class ErrorForm:
    """An ASGI application around another: gives its problems (RFC 9457) to clients of the proxy the form."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (_is_of_proxy(scope["path"]) or is_v2(scope)):
            send = _Reformed(send).send
        await self._application(scope, receive, send)


class _Reformed:
    """One answer on its way out; those that are no problem pass."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_problem(message):
            self._start = message
        elif self._start is None or message["type"] != "http.response.body":
            await self._send(message)
        else:
            self._body += message.get("body", b"")
            if not message.get("more_body", False):
                await self._end(self._start)

    async def _end(self, start: Message) -> None:
        said = orjson.loads(self._body)
        hint = said.get("hint")
        message = said["detail"] if hint is None else f"{said['detail']}; {hint}"
        code = said.get("error_code", said["status"])
        body = orjson.dumps({"error_code": code, "message": message})
        kept = [
            pair
            for pair in start["headers"]
            if pair[0].lower() not in (b"content-type", b"content-length")
        ]
        own = [
            (b"content-type", V3.encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        await self._send({**start, "headers": [*kept, *own]})
        await self._send({"type": "http.response.body", "body": body})


def _is_problem(start: Message) -> bool:
    return (b"content-type", MEDIA_TYPE.encode()) in [
        (name.lower(), value) for name, value in start.get("headers", ())
    ]


def answered(said: object, status: int = 200, media_type: str = V3) -> Response:
    return Response(orjson.dumps(said), status, media_type=media_type)


def resource(request: Request, kind: str, path: str, facts: Mapping[str, object]) -> Json:
    """One thing, with the address under which it is found again."""
    return {"kind": kind, "metadata": {"self": link(request, path)}, **facts}


def listed(request: Request, kind: str, path: str, found: Sequence[Json]) -> Response:
    metadata = {"self": link(request, path), "next": None}
    said = {"kind": f"{kind}List", "metadata": metadata, "data": list(found)}
    return counted(request, orjson.dumps(said), V3)


def related(request: Request, path: str) -> Json:
    return {"related": link(request, path)}


def link(request: Request, path: str) -> str:
    return f"{str(request.base_url).rstrip('/')}{quote(path)}"


async def body_of(request: Request, shape: type[Shape]) -> Shape:
    """The body as JSON of this shape; 422 says what is wrong with it."""
    body = await bodies.read(request, BODY_BYTES_MAX)
    try:
        return msgspec.json.decode(body or b"{}", type=shape)
    except msgspec.ValidationError as error:
        raise RestError(422, f"the body does not fit: {error}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise RestError(400, f"the body is no JSON: {error}") from None


def responses(
    schema: Mapping[str, object] | None, status: int = 200, media_type: str = V3, *more: int
) -> dict[int | str, dict[str, object]]:
    """For a route's description: its answer, and the errors."""
    fine: dict[str, object] = {"description": HTTPStatus(status).phrase}
    if schema is not None:
        fine["content"] = {media_type: {"schema": schema}}
    content = {V3: {"schema": ERROR_SCHEMA}}
    wrong: dict[int | str, dict[str, object]] = {
        number: {"description": HTTPStatus(number).phrase, "content": content}
        for number in (*_OF_THE_GUARD, *more)
    }
    return {**wrong, status: fine}


@dataclass(frozen=True)
class Route:
    """How one is described: its answer's status and form, and the body that it takes."""

    method: str
    path: str
    summary: str
    answer: Mapping[str, object] | None = None
    status: int = 200
    body: Mapping[str, object] | None = None
    media_type: str = V3
    more: tuple[int, ...] = ()
    """Errors beside those that all have."""

    def add(self, router: APIRouter, handler: Callable[..., Awaitable[Response]]) -> None:
        said = {"required": True, "content": {self.media_type: {"schema": self.body}}}
        router.add_api_route(
            self.path,
            handler,
            methods=[self.method],
            summary=self.summary,
            status_code=self.status,
            responses=responses(self.answer, self.status, self.media_type, *self.more),
            openapi_extra=None if self.body is None else {"requestBody": said},
        )


def object_of(**properties: str | Mapping[str, object]) -> Json:
    """A JSON Schema: an object that has all of these, given by their types."""
    return {
        "type": "object",
        "required": list(properties),
        "properties": {
            name: {"type": each} if isinstance(each, str) else each
            for name, each in properties.items()
        },
    }


def resource_of(**properties: str | Mapping[str, object]) -> Json:
    """A JSON Schema of what `resource` makes: its kind and its links beside these."""
    return object_of(kind="string", metadata="object", **properties)


def list_of(item: Mapping[str, object]) -> Json:
    return object_of(
        kind="string",
        metadata=object_of(self="string", next={"type": ["string", "null"]}),
        data={"type": "array", "items": item},
    )
