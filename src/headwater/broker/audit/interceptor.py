"""In front of the handlers: hears what they answer, and tells the trail what that has changed.

`audited` stands outside the authorizer's rules, so that what these refuse is seen too. It never holds up or
fails a request. What is only tried (`validate_only`) is no change; what fails half way may be, and is told.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from headwater.broker.audit.changes import TABLE, Change, Description, MayTell, described
from headwater.broker.registry import Api, Context, Handler, Later, Response

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

Tell = Callable[[str, Callable[[MayTell], Iterable[Change]], Context], None]
Audited = Callable[[Mapping[int, Api], Tell], dict[int, Api]]
FAILED = "UNKNOWN_SERVER_ERROR"


def audited(apis: Mapping[int, Api], tell: Tell) -> dict[int, Api]:
    """The same APIs; what those of `TABLE` do is told."""
    return {
        key: replace(api, handle=_heard(api, TABLE[key], tell)) if key in TABLE else api
        for key, api in apis.items()
    }


def failed(may_tell: MayTell) -> Iterator[Change]:
    """Of a handler that has raised: nobody knows how far it has come."""
    if may_tell(FAILED):
        yield Change("change", "request", "failed; some of it may be done", {}, FAILED)


def _heard(api: Api, how: Description, tell: Tell) -> Handler:
    def heard(request: object, response: Response, context: Context) -> Response:
        if _is_meant(request):
            tell(api.name, partial(described, how, request, response), context)
        return response

    def broke(request: object, context: Context) -> None:
        if _is_meant(request):
            tell(api.name, failed, context)

    async def waited(answer: Awaitable[Response], request: object, context: Context) -> Response:
        try:
            response = await answer
        except Exception:
            broke(request, context)
            raise
        return heard(request, response, context)

    def listened(answer: Later, request: object, context: Context) -> Later:
        outer = Later(answer.cancel)

        def fail(error: Exception) -> None:
            broke(request, context)
            outer.fail(error)

        answer.listen(lambda said: outer.set(heard(request, said, context)), fail)
        return outer

    def handle(
        broker: Broker, request: object, context: Context
    ) -> Response | Later | Awaitable[Response]:
        try:
            answer = api.handle(broker, request, context)
        except Exception:
            broke(request, context)
            raise
        if isinstance(answer, Later):
            return listened(answer, request, context)
        if isinstance(answer, Mapping):
            return heard(request, answer, context)
        return waited(answer, request, context)

    return handle


def _is_meant(request: object) -> bool:
    return request is not None and not getattr(request, "validate_only", False)
