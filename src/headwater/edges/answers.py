"""Answers of the HTTP interface that are not data: problems (RFC 9457), each with what to do next.

{"title": "Not Found", "status": 404, "detail": "there is no topic 'ordres'", "hint": "…"}
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headwater.client.errors import BadRequest, BrokerUnreachable, NotThere, RequestRefused
from headwater.client.position import NotAPosition
from headwater.edges.errors import (
    BadToken,
    Conflict,
    Forbidden,
    Invalid,
    IssuerAway,
    Overloaded,
    TooLarge,
)
from headwater.errors import HeadwaterError
from headwater.views.operate.wait import NotYet, Unrelated
from headwater.views.targets.contract import Unavailable

MEDIA_TYPE = "application/problem+json"
UNAVAILABLE_RETRY_S = 2
_STATUS: tuple[tuple[type[HeadwaterError], int], ...] = (
    (BadToken, 401),
    (Forbidden, 403),
    (NotThere, 404),
    (Conflict, 409),
    (TooLarge, 413),
    (Overloaded, 429),
    (Invalid, 422),
    (IssuerAway, 503),
    (BrokerUnreachable, 503),
    (Unavailable, 503),
    (NotYet, 503),
    (NotAPosition, 400),
    (Unrelated, 400),
    (BadRequest, 400),
    (RequestRefused, 400),
)


def problem(
    status: int,
    sentence: str,
    *,
    hint: str | None = None,
    headers: Mapping[str, str] | None = None,
    **facts: Any,
) -> Response:
    """`facts` stand beside the sentence, for programs."""
    said: dict[str, Any] = {"title": HTTPStatus(status).phrase, "status": status}
    said["detail"] = sentence
    if hint is not None:
        said["hint"] = hint
    return JSONResponse({**said, **facts}, status, dict(headers or {}), media_type=MEDIA_TYPE)


def of_error(error: HeadwaterError) -> Response:
    """An error that a person is meant to read, as an answer."""
    status = next((number for kind, number in _STATUS if isinstance(error, kind)), 500)
    headers: dict[str, str] = {}
    if isinstance(error, Overloaded):
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    elif status == 503:
        headers["Retry-After"] = str(UNAVAILABLE_RETRY_S)
    elif status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return problem(status, str(error), hint=error.hint, headers=headers)


async def handle(_request: Request, error: Exception) -> Response:
    """For FastAPI: what a handler raised."""
    assert isinstance(error, HeadwaterError)
    return of_error(error)


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """For a route's description: the problems that it may answer with."""
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": content}
        for status in statuses
    }


PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "One sentence: what is wrong"},
        "hint": {"type": "string", "description": "What to do next"},
    },
}
