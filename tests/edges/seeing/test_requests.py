"""Requests as spans: the trace that came goes on, or a share of them begins one."""

from __future__ import annotations

import random
from collections.abc import Iterable, MutableMapping
from typing import Any

import pytest

from headwater.edges.tracing.requests import TracedRequests
from headwater.edges.tracing.spans import SERVER, Span
from headwater.edges.tracing.traceparent import parse

TRACE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Told:
    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.is_closed = False

    def tell(self, spans: Iterable[Span]) -> None:
        self.spans += spans

    def close(self) -> None:
        self.is_closed = True


class Handler:
    """An application that says which headers it saw."""

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.saw: dict[bytes, bytes] = {}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.saw = dict(scope.get("headers", []))
        if self.status == 0:
            raise RuntimeError("broken")
        if scope["type"] == "http":
            headers = [(b"Headwater-Position", b"orders:0=18")]
            await send({"type": "http.response.start", "status": self.status, "headers": headers})
            await send({"type": "http.response.body", "body": b""})


async def ask(
    handler: Handler,
    told: Told,
    *headers: tuple[bytes, bytes],
    ratio: float = 0.0,
    method: str = "POST",
    kind: str = "http",
) -> None:
    times = iter(range(1000, 9000, 500))
    application = TracedRequests(handler, told, ratio, random.Random(7), lambda: next(times))
    scope = {"type": kind, "method": method, "path": "/topics/orders", "headers": list(headers)}

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(_message: MutableMapping[str, Any]) -> None:
        pass

    await application(scope, receive, send)


async def test_a_sampled_request_goes_on_in_its_trace():
    handler, told = Handler(), Told()
    await ask(handler, told, (b"traceparent", TRACE), (b"tracestate", b"congo=1"))
    (span,) = told.spans
    given = parse(TRACE)
    assert given is not None
    assert (span.name, span.parent_id, span.kind) == ("POST /topics/orders", given.span_id, SERVER)
    assert span.context.trace_id == given.trace_id
    assert (span.start_ns, span.end_ns) == (1000, 1500)
    assert span.attributes["http.response.status_code"] == 200
    assert span.attributes["headwater.position"] == "orders:0=18"
    # The record is to name our span, whose parent is the sender's.
    assert parse(handler.saw[b"traceparent"]) == span.context
    assert handler.saw[b"tracestate"] == b"congo=1"


async def test_a_request_that_is_not_sampled_is_left_as_it_is():
    handler, told = Handler(), Told()
    await ask(handler, told, (b"traceparent", TRACE[:-2] + b"00"), ratio=1.0)
    assert told.spans == []
    assert handler.saw[b"traceparent"] == TRACE[:-2] + b"00"


async def test_a_share_of_the_others_begins_a_trace():
    handler, told = Handler(), Told()
    await ask(handler, told, ratio=1.0)
    (span,) = told.spans
    assert span.parent_id is None
    assert parse(handler.saw[b"traceparent"]) == span.context
    await ask(handler, told, ratio=0.0)
    assert len(told.spans) == 1
    assert handler.saw == {}


async def test_nobody_can_pass_for_a_capture():
    handler, told = Handler(), Told()
    await ask(handler, told, (b"traceparent", TRACE), (b"tracestate", b"headwater=capture:shop:17"))
    assert b"tracestate" not in handler.saw


@pytest.mark.parametrize(("method", "kind"), [("GET", "http"), ("GET", "websocket")])
async def test_reads_are_not_traced(method: str, kind: str):
    handler, told = Handler(), Told()
    await ask(handler, told, (b"traceparent", TRACE), ratio=1.0, method=method, kind=kind)
    assert told.spans == []


async def test_an_answer_of_our_own_fault_is_a_failed_span():
    told = Told()
    await ask(Handler(503), told, ratio=1.0)
    await ask(Handler(422), told, ratio=1.0)
    with pytest.raises(RuntimeError):
        await ask(Handler(0), told, ratio=1.0)
    said = [span.failed for span in told.spans]
    assert said == ["answered with 503", None, "answered with 500"]


async def test_the_last_spans_are_sent_when_the_application_ends():
    told = Told()
    await ask(Handler(), told, kind="lifespan")
    assert told.is_closed
