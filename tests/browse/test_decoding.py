"""Avro in Confluent's framing, with schemas where a capture keeps them."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from confluent_kafka.admin import NewTopic

from headwater.browse.decoder import Decoder
from headwater.browse.filters import Filter
from headwater.browse.pages import page
from headwater.browse.search import search
from headwater.browse.state import state_of
from tests.browse.conftest import put

SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "note", "type": ["null", "string"]},
        {"name": "raw", "type": "bytes"},
    ],
}

ROWS = [{"id": 1, "note": "first", "raw": b"\xff"}, {"id": 2, "note": None, "raw": b""}]


def avro(number: int, row: dict) -> bytes:
    out = io.BytesIO()
    out.write(b"\0" + number.to_bytes(4, "big"))
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), row)
    return out.getvalue()


@pytest.fixture
def shop(log) -> str:
    names = ["avroshop.avro-schemas", "avroshop.orders"]
    log.admin.create_topics([NewTopic(name, 1, 1) for name in names])
    said = {"id": 77, "subject": "avroshop.orders-value", "schema": json.dumps(SCHEMA)}
    put(log, names[0], [{"key": b"?", "value": b"not json"}])
    put(log, names[0], [{"key": b'{"id":77}', "value": json.dumps(said).encode()}])
    put(log, names[1], [{"value": avro(77, row)} for row in ROWS])
    put(log, names[1], [{"value": avro(77, ROWS[0])[:7]}, {"value": avro(78, ROWS[0])}])
    return names[1]


def test_avro_is_shown_searched_and_never_an_error(log, shop):
    decoder = Decoder(log)
    shown = [decoder.decode(r.value, r.topic) for r in page(log, shop).records]
    assert [each.kind for each in shown] == ["avro", "avro", "hex", "hex"]
    assert shown[0].value == {"id": 1, "note": "first", "raw": "/w=="}
    assert shown[0].text == '{"id": 1, "note": "first", "raw": "/w=="}'
    assert shown[2].note == "not of its schema 77: no Avro of its schema: EOFError"
    assert shown[3].note == "no schema 78 in the log"
    with_key = [{"key": avro(77, {**row, "raw": b""}), "value": avro(77, row)} for row in ROWS]
    put(log, shop, [*with_key, {"key": with_key[0]["key"], "value": None}])
    before = state_of(log, shop, '{"id": 1, "note": "first", "raw": ""}', "4")
    assert (before.exists, before.row) == (True, {"id": 1, "note": "first", "raw": "/w=="})
    after = state_of(log, shop, '{"id": 1, "note": "first", "raw": ""}')
    assert (after.exists, [each.offset for each in after.changes]) == (False, [4, 6])
    by_field = search(log, shop, Filter(where=("note=first",)), decoder)
    assert [r.offset for r in by_field.records] == [4, 0]
    by_word = search(log, shop, Filter(grep="first"), decoder)
    assert [r.offset for r in by_word.records] == [6, 4, 0]


def test_schemas_that_anybody_may_have_put_aside_have_a_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("headwater.browse.decoder.PUT_ASIDE_MAX", 50)
    decoder = Decoder()
    schema = json.dumps({"type": "record", "name": "r", "fields": []})
    decoder._learn(json.dumps({"id": -1, "schema": schema, "doc": "x" * 300_000}).encode())
    for number in range(60):
        decoder._learn(json.dumps({"id": number, "schema": schema}).encode())
    assert set(decoder._schemas) == set(range(50))
