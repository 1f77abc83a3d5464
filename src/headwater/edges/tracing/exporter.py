"""Spans to a collector, by OTLP over HTTP, from a thread of its own.

`tell` never waits: whoever serves a request or follows the topics goes on. Between them lies a bounded
queue; spans that find it full, and those that the collector did not take, are counted.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from headwater import __version__
from headwater.edges import counts
from headwater.edges.tracing.settings import Tracing
from headwater.edges.tracing.spans import CONSUMER, INTERNAL, PRODUCER, SERVER, Span

QUEUE_MAX = 10_000
BATCH = 500
EVERY_S = 1.0
TIMEOUT_S = 10.0

_SPANS = counts.counter(
    "headwater_edge_spans_total", "Spans by what became of them: sent, refused, dropped", ("fate",)
)
_KINDS = {
    PRODUCER: SpanKind.PRODUCER,
    CONSUMER: SpanKind.CONSUMER,
    SERVER: SpanKind.SERVER,
    INTERNAL: SpanKind.INTERNAL,
}
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_SCOPE = InstrumentationScope("headwater", __version__)
# It says each failed attempt, with a traceback; we count, and say it once.
logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)
_log = logging.getLogger("headwater.edges")


class Exporter:
    """Of one process; may be told spans from any thread."""

    def __init__(self, tracing: Tracing) -> None:
        self._where = tracing.endpoint
        self._otlp = OTLPSpanExporter(
            endpoint=tracing.endpoint, headers=dict(tracing.headers), timeout=TIMEOUT_S
        )
        self._resource = Resource.create(
            {"service.name": tracing.service, "service.version": __version__}
        )
        self._queue: deque[Span] = deque()
        self._more = threading.Event()
        self._closing = threading.Event()
        self._is_refused = False
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)
        self._started = threading.Lock()
        self.sent = 0

    def tell(self, spans: Iterable[Span]) -> None:
        for span in spans:
            if len(self._queue) >= QUEUE_MAX:
                _SPANS.labels("dropped").inc()
            else:
                self._queue.append(span)
        if self._queue and not self._thread.is_alive():
            self._start()
        if len(self._queue) >= BATCH:
            self._more.set()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def close(self) -> None:
        """Once what waits is sent, or the collector has not answered in time."""
        self._closing.set()
        self._more.set()
        if self._thread.is_alive():
            self._thread.join(TIMEOUT_S)
        self._otlp.shutdown()  # type: ignore[no-untyped-call]

    def _start(self) -> None:
        with self._started:
            if not self._thread.is_alive() and not self._closing.is_set():
                self._thread.start()

    def _run(self) -> None:
        is_last = False
        while not is_last:
            self._more.wait(EVERY_S)
            self._more.clear()
            is_last = self._closing.is_set()
            while self._queue:
                self._send([self._queue.popleft() for _ in range(min(BATCH, len(self._queue)))])

    def _send(self, spans: list[Span]) -> None:
        try:
            result = self._otlp.export([readable(span, self._resource) for span in spans])
        except Exception:  # of these spans; the thread is there for those that follow
            _log.exception("%d spans could not be sent", len(spans))
            result = SpanExportResult.FAILURE
        taken = result is SpanExportResult.SUCCESS
        _SPANS.labels("sent" if taken else "refused").inc(len(spans))
        self.sent += len(spans) if taken else 0
        if not taken and not self._is_refused:
            _log.warning("%s did not take %d spans; they are lost", self._where, len(spans))
        self._is_refused = not taken


def readable(span: Span, resource: Resource) -> ReadableSpan:
    """In OpenTelemetry's form."""
    trace_id = span.context.trace_id
    parent = (
        None
        if span.parent_id is None
        else SpanContext(trace_id, span.parent_id, is_remote=True, trace_flags=_SAMPLED)
    )
    return ReadableSpan(
        name=span.name,
        context=SpanContext(trace_id, span.context.span_id, False, _SAMPLED),
        parent=parent,
        resource=resource,
        attributes=dict(span.attributes),
        events=[Event(name, timestamp=at) for at, name in span.events],
        kind=_KINDS[span.kind],
        status=Status(StatusCode.ERROR, span.failed) if span.failed else Status(),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=_SCOPE,
    )
