"""CloudEvents as records, by the rules of the HTTP and the Kafka bindings."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.edges.cloud_events import NotAnEvent, batched, binary, is_binary, parts, structured

EVENT = {"specversion": "1.0", "id": "7", "source": "/shop", "type": "order.paid"}
HEADERS = {f"ce-{name}": value for name, value in EVENT.items()}


def test_binary_mode_keeps_the_data_and_puts_attributes_into_headers():
    headers = {
        **HEADERS,
        "ce-subject": "caf%C3%A9 %22x%22",
        "ce-partitionkey": "k",
        "accept": "*/*",
    }
    event = binary(headers.items(), b'{"a":1}', "application/json")
    assert event.draft.key == b"k"
    assert event.draft.value == b'{"a":1}'
    assert dict(event.draft.headers) == {
        "ce_specversion": b"1.0",
        "ce_id": b"7",
        "ce_source": b"/shop",
        "ce_type": b"order.paid",
        "ce_subject": 'café "x"'.encode(),
        "ce_partitionkey": b"k",
        "content-type": b"application/json",
    }
    assert (event.data, event.has_json) == ({"a": 1}, True)


def test_binary_mode_without_data_is_a_record_without_a_value():
    event = binary(HEADERS.items(), b"", None)
    assert event.draft.value is None
    assert not event.has_json


def test_structured_mode_is_stored_as_it_was_sent():
    body = json.dumps({**EVENT, "partitionkey": "k", "data": {"a": 1.50}}).encode()
    event = structured(body, "application/cloudevents+json; charset=utf-8")
    assert event.draft.value == body
    assert event.draft.key == b"k"
    assert event.draft.headers == [("content-type", b"application/cloudevents+json; charset=utf-8")]
    assert event.data == {"a": 1.5}


def test_a_batch_is_one_record_for_each_event_byte_for_byte():
    body = b'[ {"specversion":"1.0", "id":"1","source":"s","type":"t","data":1.50} ,\n'
    body += json.dumps({**EVENT, "id": "2", "data_base64": "AAE="}).encode() + b"]"
    first, second = batched(parts(body))
    assert (
        first.draft.value == b'{"specversion":"1.0", "id":"1","source":"s","type":"t","data":1.50}'
    )
    assert second.draft.value is not None and json.loads(second.draft.value)["id"] == "2"
    assert first.draft.headers == [("content-type", b"application/cloudevents+json")]
    assert list(batched(parts(b"[]"))) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": None}, "no id"),
        ({"id": ""}, "no id"),
        ({"source": 17}, "source is a text"),
        ({"specversion": "0.3"}, "1.0"),
        ({"Extension": "x"}, "small letters"),
        ({"my_ext": "x"}, "small letters"),
        ({"nested": {"a": 1}}, "nested"),
        ({"much": 2**31}, "32 bits"),
        ({"time": "yesterday"}, "RFC 3339"),
        ({"time": "2026-13-01T00:00:00Z"}, "RFC 3339"),
        ({"time": "2026-13-01T00:00:60Z"}, "RFC 3339"),
        ({"time": "2026-12-01T00:00:00+00:60"}, "RFC 3339"),
        ({"subject": ""}, "subject"),
        ({"data": 1, "data_base64": "AA=="}, "not both"),
        ({"source": "a b<>"}, "URI reference"),
        ({"source": "/ä"}, "URI reference"),
        ({"dataschema": "no schema"}, "absolute URI"),
        ({"dataschema": "/relative"}, "absolute URI"),
        ({"datacontenttype": "json"}, "media type"),
        ({"data_base64": "?"}, "Base64"),
        ({"data_base64": 1}, "Base64"),
    ],
)
def test_what_the_specification_forbids_is_refused(change: dict[str, Any], said: str):
    with pytest.raises(NotAnEvent, match=said):
        structured(json.dumps({**EVENT, **change}).encode(), "application/cloudevents+json")
    with pytest.raises(NotAnEvent, match=f"event 1 of the batch: .*{said}"):
        list(batched(parts(json.dumps([EVENT, {**EVENT, **change}]).encode())))


@pytest.mark.parametrize("body", [b"", b"{", b"17", b"[]", b"\xff", b"[" * 5000, b'{"a":1e999}'])
def test_what_is_no_event_is_refused(body: bytes):
    with pytest.raises(NotAnEvent):
        structured(body, "application/cloudevents+json")


@pytest.mark.parametrize("time", ["2026-11-15T15:00:00Z", "2026-11-15t15:00:00.123456+01:00"])
def test_times_of_rfc_3339_are_taken(time: str):
    structured(json.dumps({**EVENT, "time": time}).encode(), "application/cloudevents+json")


def test_a_header_that_is_no_utf_8_is_refused():
    with pytest.raises(NotAnEvent, match="percent"):
        binary({**HEADERS, "ce-subject": "%FF"}.items(), b"", None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ce-data": "x"}, "ce-data is no attribute"),
        ({"ce-data_base64": "AA=="}, "ce-data_base64 is no attribute"),
        ({"ce-datacontenttype": "text/plain"}, "ce-datacontenttype says"),
        ({"ce-source": "a b<>"}, "URI reference"),
        ({"ce-dataschema": "%20"}, "absolute URI"),
    ],
)
def test_headers_that_contradict_or_mean_nothing_are_refused(change: dict[str, str], said: str):
    with pytest.raises(NotAnEvent, match=said):
        binary({**HEADERS, **change}.items(), b"1", "application/json")


def test_one_header_of_an_event_makes_it_one_and_the_others_are_missed():
    assert is_binary({"ce-type": "x"}) and not is_binary({"content-type": "x"})
    with pytest.raises(NotAnEvent, match="no specversion"):
        binary([("ce-type", "x"), ("ce-source", "/s")], b"1", "application/json")


@pytest.mark.parametrize(
    "source", ["/a%20b", "urn:x:1", "https://shop.example/?a=1#b", "//h/p", "a"]
)
def test_addresses_are_taken_as_they_were_written(source: str):
    event = binary({**HEADERS, "ce-source": source}.items(), b"1", "application/json")
    assert ("ce_source", source.encode()) in list(event.draft.headers or ())
