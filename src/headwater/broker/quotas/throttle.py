"""Between a connection and the quotas: what a request took, and the answer that says so.

Only used while there are quotas; see `enforcement`.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Awaitable, Callable, Generator
from time import perf_counter
from typing import TYPE_CHECKING, Any

from headwater.broker.answer import Answer
from headwater.broker.quotas.enforcement import FETCH
from headwater.broker.registry import Later, Response
from headwater.record.varint import Buffer
from headwater.wire import messages

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def timed(handle: Callable[..., Any], answer: Answer, *arguments: Any) -> Any:
    """Call a handler and count the time that it takes, without the time that it waits."""
    begin = perf_counter()
    result: Response | Later | Awaitable[Response] = handle(*arguments)
    answer.seconds += perf_counter() - begin
    return _measured(result, answer) if inspect.iscoroutine(result) else result


async def _measured(coroutine: Any, answer: Answer) -> Any:
    return await _stepwise(coroutine, answer)


@types.coroutine
def _stepwise(coroutine: Any, answer: Answer) -> Generator[Any, Any, Any]:
    """Runs it step by step, each with a stop-watch."""
    step: Callable[..., Any] = coroutine.send
    given: Any = None
    while True:
        begin = perf_counter()
        try:
            waits_for = step(given)
        except StopIteration as end:
            return end.value
        finally:
            answer.seconds += perf_counter() - begin
        try:
            given = yield waits_for
            step = coroutine.send
        except BaseException as error:  # cancellation, too, is the handler's to see
            given, step = error, coroutine.throw


def settle(
    broker: Broker, principal: str, header: messages.Header, answer: Answer, chunks: list[Buffer]
) -> tuple[int, list[Buffer]]:
    """Charge for an answer that is ready as `chunks`: the throttle time, and what to send."""
    body: Response = answer.body
    sizes = (answer.size, sum(map(len, chunks)))
    charge = broker.quotas.charge(
        principal, header.client_id, header.api_key, sizes, answer.seconds
    )
    throttle_ms = max(charge.throttle_ms, body.get("throttle_time", 0))
    if not throttle_ms or not chunks:
        return throttle_ms, chunks
    if header.api_key == FETCH and charge.hold_back:
        session_id = broker.sessions.held_back(body.get("session_id", 0))
        body = {"session_id": session_id, "responses": ()}
    told = {**body, "throttle_time": throttle_ms}
    version = max(header.api_version, 0)
    return throttle_ms, messages.encode(header.api_key, version, header.correlation_id, told)
