"""A topic whose values are those of a registry's subject: JSON comes in and goes out, Avro is stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from headwater.client import ranges
from headwater.client.log import Log
from tests.edges.running import Running, edges
from tests.schemas.conftest import serving

ORDER = {"type": "record", "name": "Order", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": None},
]}  # fmt: skip
EVENT = {"ce-id": "1", "ce-source": "/shop", "ce-type": "order", "ce-specversion": "1.0"}


@pytest.fixture(scope="module")
def registry(log: Log) -> Iterator[str]:
    with serving(log.bootstrap) as url:
        yield url


@pytest.fixture
def place(
    log: Log, registry: str, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Running]]:
    monkeypatch.setenv("HEADWATER_REGISTRY", registry)
    name = topic()
    with SchemaRegistryClient({"url": registry}) as client:
        client.register_schema(f"{name}-value", Schema(json.dumps(ORDER), "AVRO"))
    with edges(log.bootstrap, {"topics": {name: {"subject": f"{name}-value"}}}) as running:
        yield name, running


def stored(log: Log, name: str, registry: str) -> list[object]:
    """What a stock deserializer makes of the topic's values."""
    with SchemaRegistryClient({"url": registry}) as client:
        read = AvroDeserializer(client)
        context = SerializationContext(name, MessageField.VALUE)
        some = ranges.read(log, name, log.ranges(name))
        return [read(each.value, context) for records in some for each in records]


def test_json_is_stored_as_the_subject_says(log: Log, registry: str, place: tuple[str, Running]):
    name, running = place
    with httpx.Client(base_url=running.url, timeout=60) as http:
        assert http.post(f"/topics/{name}", json={"id": 1}).status_code == 200
        lines = '{"id": 2, "note": "a"}\n{"id": 3}\n'
        kind = {"content-type": "application/x-ndjson"}
        assert http.post(f"/topics/{name}", content=lines, headers=kind).status_code == 200
        assert http.post(f"/topics/{name}", json={"id": 4}, headers=EVENT).status_code == 200
        refused = http.post(f"/topics/{name}", json={"id": "x"})
        assert (
            refused.status_code == 422 and "the field id is 'x', which is no long" in refused.text
        )
        refused = http.post(f"/topics/{name}", content=b"\1\2")
        assert refused.status_code == 415
    (event,) = (
        each
        for some in ranges.read(log, name, log.ranges(name))
        for each in some
        if "ce_id" in dict(each.headers)
    )
    where = dict(event.headers)[
        "ce_dataschema"
    ].decode()  # the address resolves to the schema itself
    assert where.startswith(f"{registry}/schemas/ids/")
    assert httpx.get(where).json()["name"] == "Order"
    assert stored(log, name, registry) == [
        {"id": 1, "note": None},
        {"id": 2, "note": "a"},
        {"id": 3, "note": None},
        {"id": 4, "note": None},
    ]


def test_a_structured_event_is_stored_as_its_data_with_its_attributes_as_headers(
    log: Log, registry: str, place: tuple[str, Running]
):
    name, running = place
    said = {"specversion": "1.0", "source": "/x", "type": "t", "partitionkey": "k", "urgent": True}
    events = [{**said, "id": str(n), "data": {"id": n}} for n in range(3)]
    events[0] |= {"time": "2026-11-15T15:00:00Z", "dataschema": "https://example.com/order"}
    kinds = [{"content-type": f"application/cloudevents{more}+json"} for more in ("", "-batch")]
    with httpx.Client(base_url=running.url, timeout=60) as http:
        path = f"/topics/{name}"
        assert http.post(path, content=json.dumps(events[0]), headers=kinds[0]).status_code == 200
        assert http.post(path, content=json.dumps(events[1:]), headers=kinds[1]).status_code == 200
        wrong = {**events[0], "data": {"id": "x"}}
        assert http.post(path, content=json.dumps(wrong), headers=kinds[0]).status_code == 422
        none = {**said, "id": "7", "data_base64": "AAA="}
        assert http.post(path, content=json.dumps(none), headers=kinds[0]).status_code == 422
    assert stored(log, name, registry) == [{"id": n, "note": None} for n in range(3)]
    records = [each for some in ranges.read(log, name, log.ranges(name)) for each in some]
    assert [each.key for each in records] == [b"k"] * 3
    first, second = (dict(each.headers) for each in records[:2])
    assert (first["ce_id"], first["ce_urgent"], first["ce_specversion"]) == (b"0", b"true", b"1.0")
    assert first["ce_time"] == b"2026-11-15T15:00:00Z"
    assert first["ce_dataschema"] == b"https://example.com/order"
    assert (second["ce_id"], second["content-type"]) == (b"1", b"application/json")
    assert second["ce_dataschema"].decode().startswith(registry)


def test_a_changefeed_tells_it_as_json(place: tuple[str, Running]):
    name, running = place
    with httpx.Client(base_url=running.url, timeout=60) as http:
        http.post(f"/topics/{name}", json={"id": 1, "note": "tea"})
        feed = f"/topics/{name}?from=beginning"
        with http.stream("GET", feed, headers={"accept": "text/event-stream"}) as answer:
            line = next(each for each in answer.iter_lines() if each.startswith("data:"))
    assert json.loads(line.removeprefix("data:"))["value"] == {"id": 1, "note": "tea"}
