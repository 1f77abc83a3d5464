"""The query of a GET, read strictly: a name that a route does not have is told, and not passed over.

A filter that is misspelt would give records that nobody wants, and `as_of` rows of now. For routes that are
described by FastAPI: `dependencies=[STRICT]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastapi import Depends
from fastapi.routing import APIRoute
from starlette.requests import Request

from headwater.client.errors import BadRequest
from headwater.errors import nearest

LAST_EVENT = "lastEventId"
"""Which stands in for the header in browsers' polyfills of EventSource."""
_EVERYWHERE = ("access_token", LAST_EVENT)
"""The first the guard reads on every route."""
_ELSEWHERE = {"as_of": "rows as they were are computed by the application: headwater rows --as-of"}


async def check(request: Request) -> None:
    """Raises BadRequest."""
    route = request.scope["route"]
    assert isinstance(route, APIRoute)
    check_names(request.query_params, [each.alias for each in route.dependant.query_params])


def check_names(given: Iterable[str], known: Sequence[str]) -> None:
    """Raises BadRequest."""
    known = sorted(known)
    for name in given:
        if name not in known and name not in _EVERYWHERE:
            said = f"there is no parameter {name[:50]!r}"
            end = nearest(name, known) if known else "; there are none here"
            raise BadRequest(said + end, hint=_ELSEWHERE.get(name))


STRICT = Depends(check)
