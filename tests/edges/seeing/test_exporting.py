"""Spans as a collector receives them: OTLP over HTTP, in protobuf."""

from __future__ import annotations

import pytest

from headwater.edges import counts
from headwater.edges.tracing import exporter as exporting
from headwater.edges.tracing.exporter import Exporter
from headwater.edges.tracing.settings import Tracing
from headwater.edges.tracing.spans import CONSUMER, Span
from headwater.edges.tracing.traceparent import Context
from tests.edges.running import until
from tests.edges.seeing.collector import Collector, collector, values

SPAN = Span(
    name="view orders",
    context=Context(0xABC, 0x17),
    parent_id=0x16,
    start_ns=1_000,
    end_ns=2_000,
    kind=CONSUMER,
    attributes={"messaging.kafka.offset": 17, "headwater.seen_within_ms": 0.5, "topic": "t"},
    events=((1_500, "half way"),),
)


def counted(fate: str) -> float:
    return counts.REGISTRY.get_sample_value("headwater_edge_spans_total", {"fate": fate}) or 0.0


def test_a_span_arrives_as_it_was_told():
    with collector() as found:
        exporter = Exporter(Tracing(found.url, headers={"x-team": "shop"}, service="shop-log"))
        exporter.tell([SPAN])
        until(lambda: found.spans, "the span")
        exporter.close()
    (span,) = found.spans
    assert span.trace_id.hex() == f"{0xABC:032x}"
    assert (span.span_id.hex(), span.parent_span_id.hex()) == (f"{0x17:016x}", f"{0x16:016x}")
    assert (span.name, span.start_time_unix_nano, span.end_time_unix_nano) == (
        "view orders",
        1_000,
        2_000,
    )
    assert values(span.attributes) == dict(SPAN.attributes)
    assert [(event.time_unix_nano, event.name) for event in span.events] == [(1_500, "half way")]
    assert span.kind == span.SPAN_KIND_CONSUMER
    assert span.status.code == span.status.STATUS_CODE_UNSET
    assert found.resources[0]["service.name"] == "shop-log"
    assert found.headers[0]["x-team"] == "shop"


def test_a_span_that_failed_says_why():
    with collector() as found:
        exporter = Exporter(Tracing(found.url))
        exporter.tell([Span("view x", Context(1, 2), None, 1, 2, failed="never came")])
        exporter.close()
    (span,) = found.spans
    assert span.parent_span_id == b""
    assert (span.status.code, span.status.message) == (span.status.STATUS_CODE_ERROR, "never came")


def test_what_waits_is_sent_before_the_end():
    with collector() as found:
        exporter = Exporter(Tracing(found.url))
        exporter.tell([SPAN] * (2 * exporting.BATCH + 1))
        exporter.close()
        assert len(found.spans) == 2 * exporting.BATCH + 1
        assert exporter.sent == len(found.spans)


def test_what_the_collector_does_not_take_is_counted(caplog: pytest.LogCaptureFixture):
    before = counted("refused")
    with collector() as found:
        found.status = 400
        exporter = Exporter(Tracing(found.url))
        exporter.tell([SPAN, SPAN])
        exporter.close()
    assert counted("refused") == before + 2
    assert exporter.sent == 0
    assert "did not take 2 spans" in caplog.text


def test_a_full_queue_drops_and_counts_and_nobody_waits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(exporting, "QUEUE_MAX", 3)
    monkeypatch.setattr(exporting, "EVERY_S", 3600.0)  # only the end wakes it
    before = counted("dropped")
    with collector() as found:
        exporter = Exporter(Tracing(found.url))
        exporter.tell([SPAN] * 5)
        exporter.close()
    _all_of(found, 3)
    assert counted("dropped") == before + 2


def _all_of(found: Collector, count: int) -> None:
    assert len(found.spans) == count


def test_the_path_of_otlp_is_added_once():
    assert Tracing("http://c:4318").endpoint == "http://c:4318/v1/traces"
    assert Tracing("http://c:4318/").endpoint == "http://c:4318/v1/traces"
    assert Tracing("http://c/otlp/v1/traces").endpoint == "http://c/otlp/v1/traces"
