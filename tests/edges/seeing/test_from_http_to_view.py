"""A request to the whole application becomes one trace: the sender's span, ours, and the view's."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from headwater.browse.pages import page
from headwater.client.log import Log
from headwater.edges import counts
from headwater.edges.tracing.traceparent import parse
from tests.edges.running import Running, edges, until
from tests.edges.seeing.collector import collector, values

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "congo=t61"}


def _is_following(running: Running) -> bool:
    facts = running.context.status.of("tracing").facts
    return facts is not None and facts()["partitions"] > 0


@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
def test_a_request_is_followed_to_the_view(log: Log, topic: Callable[..., str], kind: str):
    name = topic()
    with collector() as found:
        section = {"otlp": found.url, "topics": [name]}
        with edges(log.bootstrap, {"tracing": section}) as running:
            until(lambda: _is_following(running), "the follower")
            answer = httpx.post(
                f"{running.url}/topics/{name}",
                content=b'{"id":1}\n{"id":2}' if "nd" in kind else b'{"id":1}',
                headers={**SAMPLED, "content-type": kind},
            )
            assert answer.status_code == 200, answer.text
            settings = {**log.settings, "group.id": f"headwater-{name}"}
            consumer = Consumer({**settings, "enable.auto.commit": False})
            consumer.commit(offsets=[TopicPartition(name, 0, 2)], asynchronous=False)
            consumer.close()
            until(lambda: found.named(f"view {name}"), "the view's span")
            status = httpx.get(f"{running.url}/status").json()["services"]["tracing"]
            assert status["spans_sent"] >= 1
    (request,) = found.named(f"POST /topics/{name}")
    assert (request.trace_id.hex(), request.parent_span_id.hex()) == (TRACE, PARENT)
    assert values(request.attributes)["http.response.status_code"] == 200
    assert values(request.attributes)["headwater.position"] == answer.headers["headwater-position"]
    for view in found.named(f"view {name}"):
        assert view.trace_id == request.trace_id
        assert view.parent_span_id == request.span_id
    (record, *_) = page(log, name).records
    headers = dict(record.headers)
    context = parse(headers["traceparent"])
    assert context is not None and f"{context.span_id:016x}" == request.span_id.hex()
    assert headers["tracestate"] == b"congo=t61"


def test_what_is_not_to_be_traced_costs_no_header(log: Log, topic: Callable[..., str]):
    name = topic()
    with collector() as found:
        section = {"otlp": found.url, "topics": [name], "ratio": 0.0}
        with edges(log.bootstrap, {"tracing": section}) as running:
            httpx.post(f"{running.url}/topics/{name}", json={"id": 1}).raise_for_status()
            text = httpx.get(f"{running.url}/metrics").text
            assert "headwater_edge_spans_total" in text
    (record,) = page(log, name).records
    assert "traceparent" not in dict(record.headers)
    assert found.spans == []
    assert counts.REGISTRY.get_sample_value("headwater_edge_traced_records_total") is not None
