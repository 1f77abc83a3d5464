"""POST /topics/{topic} with a content type of Confluent's REST proxy v2: its records, and no others."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from headwater.client.log import Log
from headwater.edges.rest.formats import RECORDS_MAX
from tests.edges.rest.conftest import Clients
from tests.edges.rest.test_records import records

JSON, BINARY = (f"application/vnd.kafka.{each}.v2+json" for each in ("json", "binary"))
Topic = Callable[..., str]


def posted(client: httpx.Client, topic: str, said: Any, kind: str = JSON) -> httpx.Response:
    body = said if isinstance(said, bytes) else json.dumps(said).encode()
    return client.post(f"/topics/{topic}", content=body, headers={"Content-Type": kind})


def test_json_records_are_stored_each_by_itself(client: Clients, log: Log, topic: Topic):
    name = topic(2)
    body = b"""{"records": [{"key": {"id": 7}, "value": {"total": 12.50}, "partition": 1},
        {"value": "text", "partition": 1} , {"key": "k", "value": null, "partition": 0}]}"""
    said = posted(client("bob"), name, body)
    assert (said.status_code, said.headers["content-type"]) == (
        200,
        "application/vnd.kafka.v2+json",
    )
    assert said.json() == {
        "key_schema_id": None,
        "value_schema_id": None,
        "offsets": [
            {"partition": partition, "offset": offset, "error_code": None, "error": None}
            for partition, offset in ((1, 0), (1, 1), (0, 0))
        ],
    }
    found = [(each.partition, each.key, each.value) for each in records(log, name)]
    assert sorted(found, key=lambda each: each[0]) == [
        (0, b'"k"', None),
        (1, b'{"id": 7}', b'{"total": 12.50}'),
        (1, None, b'"text"'),
    ]


@pytest.mark.parametrize("kind", [BINARY, "application/vnd.kafka.v2+json; charset=utf-8"])
def test_binary_records_are_base64(client: Clients, log: Log, topic: Topic, kind: str):
    name = topic()
    said = posted(client("bob"), name, {"records": [{"key": "aw==", "value": "AAH/"}]}, kind)
    assert said.status_code == 200, said.text
    assert [(each.key, each.value) for each in records(log, name)] == [(b"k", b"\x00\x01\xff")]


def test_what_the_log_refuses_is_told_of_that_record_alone(client: Clients, log: Log, topic: Topic):
    name = topic(max_message_bytes=2000)
    large = os.urandom(5000).hex()
    said = posted(client("bob"), name, {"records": [{"value": 1}, {"value": large}, {"value": 2}]})
    outcomes = said.json()["offsets"]
    assert [each["error_code"] for each in outcomes] == [None, 1, None]
    assert outcomes[1]["offset"] is None and "too large" in outcomes[1]["error"]
    assert [each.value for each in records(log, name)] == [b"1", b"2"]


WRONG = [
    (JSON, b"{", 400),
    (JSON, b"[]", 422),
    (JSON, b"{}", 422),
    (JSON, b'{"records": []}', 422),
    (JSON, b'{"records": {}}', 422),
    (JSON, b'{"records": [7]}', 42206),
    (JSON, b'{"records": [{"value": 1}, {"value": 1, "headers": []}]}', 42206),
    (JSON, b'{"records": [{"value": 1, "partition": -1}]}', 42206),
    (JSON, b'{"records": [{"value": ' + b"[" * 9000 + b"]" * 9000 + b"}]}", 400),
    (BINARY, b'{"records": [{"value": "AA=="}, {"value": "no base64"}]}', 42206),
    (BINARY, b'{"records": [{"value": {}}]}', 42206),
    ("application/vnd.kafka.avro.v2+json", b'{"records": [{"value": {}}]}', 415),
    ("application/vnd.kafka.json.v7+xml", b'{"records": [{"value": {}}]}', 415),
]


@pytest.mark.parametrize(("kind", "body", "code"), WRONG)
def test_what_does_not_fit_is_refused_and_nothing_is_stored(
    client: Clients, log: Log, topic: Topic, kind: str, body: bytes, code: int
):
    name = topic()
    said = posted(client("bob"), name, body, kind)
    assert said.json()["error_code"] == code, said.text
    assert said.status_code == (code if code < 1000 else code // 100) and said.json()["message"]
    assert records(log, name) == []


def test_records_are_counted_before_they_are_made(client: Clients, log: Log, topic: Topic):
    name = topic()
    body = b'{"records": [' + b"{}," * RECORDS_MAX + b"{}]}"
    assert posted(client("bob"), name, body).json()["error_code"] == 42206
    many = b'{"records": [{"value": [' + b"[]," * 2_000_000 + b"[]]}]}"
    said = posted(client("bob"), name, many).json()
    assert said["error_code"] == 400 and "values in one record" in said["message"]
    assert records(log, name) == []


def test_who_may_not_write_and_what_it_cannot_say_is_told_in_its_form(
    client: Clients, topic: Topic
):
    one = {"records": [{"value": 1}]}
    assert posted(client("dan"), topic(), one).json()["error_code"] == 403
    assert posted(client("ann"), "nowhere", one).json()["error_code"] == 404
    assert posted(client("ann"), "__headwater_audit", one).json()["error_code"] == 403
    name, headers = topic(), {"Content-Type": JSON}
    for asked, more in (
        ("?key=k", {}),
        ("", {"Idempotency-Key": "i"}),
        ("", {"Headwater-Key": "k"}),
    ):
        path = f"/topics/{name}{asked}"
        said = client("bob").post(path, json=one, headers={**headers, **more})
        assert said.json()["error_code"] == 400, said.text
