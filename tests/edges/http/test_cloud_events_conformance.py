"""The cases of CloudEvents' own conformance project (JSON format, HTTP and Kafka bindings), by a real log."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest
from cloudevents.core.bindings import kafka as ce_kafka

from headwater.client.log import Log
from tests.edges.http.reading import headers, records

Make = Callable[..., str]
LEFT_OUT = object()
EVENT: dict[str, object] = {
    "specversion": "1.0",
    "id": "1234-1234-1234",
    "type": "com.example.someevent",
    "source": "/mycontext/subcontext",
}
FULL = {**EVENT, "time": "2018-04-05T03:56:24Z"}
DATA = {"message": "Hello World!"}
INVALID: dict[str, dict[str, object]] = {
    **{f"no {name}": {name: LEFT_OUT} for name in EVENT},
    **{f"empty {name}": {name: ""} for name in EVENT},
    **{f"empty {name}": {name: ""} for name in ("datacontenttype", "dataschema", "subject")},
    **{
        f"time {text}": {"time": text}
        for text in (
            "lunchtime",
            "2018-04-05T18:31Z",
            "2018-04-05T18:31:00X",
            "2018-04-05T18:31:00+25:00",
            "2018-04-05T18:31:00+xx:00",
            "2018-04-05T18:31:00+05",
        )
    },
    "unknown version": {"specversion": "0.9"},
    "media type": {"datacontenttype": "xyz"},
    "numeric id": {"id": 25},
    "object id": {"id": {"xyz": "abc"}},
    "capital in a name": {"MyExtension": "bad"},
    "dot in a name": {"my.extension": "bad"},
    "fraction": {"myextension": 1.5},
    "two data": {"data": "text", "data_base64": "eyAieHl6IjogMTIzIH0="},
}
VALID: dict[str, dict[str, object]] = {
    "minimal": {},
    "null for what may be left out": dict.fromkeys(
        ("datacontenttype", "dataschema", "subject", "time")
    ),
    "all core attributes": {
        "datacontenttype": "text/plain",
        "dataschema": "https://cloudevents.io/dataschema",
        "subject": "tests",
        "time": "2018-04-05T17:31:00Z",
    },
    "nanoseconds": {"time": "2018-04-05T17:31:00.000000000Z"},
    "positive offset": {"time": "2018-04-05T18:31:00+01:00"},
    "negative offset": {"time": "2018-04-05T16:31:00-01:00"},
    "relative source": {"source": "#fragment"},
    "text": {"datacontenttype": "text/plain", "data": "Simple text"},
    "all kinds of extensions": {
        "extinteger": 10,
        "extboolean": True,
        "extstring": "text",
        "exturi": "https://cloudevents.io",
        "exturiref": "//authority/path",
        "exttimestamp": "2023-03-31T15:12:00Z",
        "extbinary": "TWE=",
    },
}


def changed(change: dict[str, object]) -> dict[str, object]:
    return {n: value for n, value in {**EVENT, **change}.items() if value is not LEFT_OUT}


def post(http: httpx.Client, topic: str, kind: str, body: object) -> int:
    said = {"content-type": kind}
    return http.post(f"/topics/{topic}", content=json.dumps(body), headers=said).status_code


@pytest.mark.parametrize("case", INVALID)
def test_an_invalid_event_is_refused_alone_and_in_a_batch(
    http: httpx.Client, log: Log, topic: Make, case: str
) -> None:
    name, event = topic(), changed(INVALID[case])
    assert post(http, name, "application/cloudevents+json", event) == 400
    assert post(http, name, "application/cloudevents-batch+json", [EVENT, event]) == 400
    assert records(log, name) == []


def test_a_batch_with_something_that_is_no_object_is_refused(
    http: httpx.Client, topic: Make
) -> None:
    assert post(http, topic(), "application/cloudevents-batch+json", ["no object", EVENT]) == 400


def test_valid_events_are_stored_as_they_were_sent(
    http: httpx.Client, log: Log, topic: Make
) -> None:
    name, events = topic(), [changed(each) for each in VALID.values()]
    for event in events:
        assert post(http, name, "application/cloudevents+json", event) == 200
    assert post(http, name, "application/cloudevents-batch+json", []) == 200
    assert post(http, name, "application/cloudevents-batch+json", events) == 200
    assert [json.loads(each.value() or b"") for each in records(log, name)] == events * 2


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8"])
def test_binary_mode_over_http_is_binary_mode_in_the_log(
    http: httpx.Client, log: Log, topic: Make, kind: str
) -> None:
    name = topic()
    said = {f"ce-{attribute}": str(value) for attribute, value in FULL.items()}
    sent = http.post(
        f"/topics/{name}", content=json.dumps(DATA), headers={**said, "content-type": kind}
    )
    assert sent.status_code == 200
    (record,) = records(log, name)
    expected = {f"ce_{attribute}": str(value).encode() for attribute, value in FULL.items()}
    assert headers(record) == {**expected, "content-type": kind.encode()}
    assert json.loads(record.value() or b"") == DATA


@pytest.mark.parametrize("more", ["", "; charset=utf-8"])
def test_structured_mode_over_http_is_structured_mode_in_the_log(
    http: httpx.Client, log: Log, topic: Make, more: str
) -> None:
    name, kind = topic(), f"application/cloudevents+json{more}"
    event = {**FULL, "datacontenttype": "application/json", "data": DATA}
    assert post(http, name, kind, event) == 200
    (record,) = records(log, name)
    assert headers(record) == {"content-type": kind.encode()}
    message = ce_kafka.KafkaMessage(headers(record), record.key(), record.value() or b"")
    read = ce_kafka.from_kafka_event(message)
    assert (read.get_id(), read.get_source(), read.get_data()) == (
        EVENT["id"],
        EVENT["source"],
        DATA,
    )
