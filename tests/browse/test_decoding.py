"""Avro in Confluent's framing, with schemas where a capture keeps them."""

from __future__ import annotations

import io
import json

import fastavro
import pytest
from confluent_kafka.admin import NewTopic

from headwater.browse.decoding import Decoder
from headwater.browse.filters import Filter
from headwater.browse.pages import page
from headwater.browse.searching import search
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
    rows = [{"id": 1, "note": "first", "raw": b"\xff"}, {"id": 2, "note": None, "raw": b""}]
    put(log, names[1], [{"value": avro(77, row)} for row in rows])
    put(log, names[1], [{"value": avro(77, rows[0])[:7]}, {"value": avro(78, rows[0])}])
    return names[1]


def test_avro_is_shown_searched_and_never_an_error(log, shop):
    decoder = Decoder(log)
    shown = [decoder.decode(r.value, r.topic) for r in page(log, shop).records]
    assert [each.kind for each in shown] == ["avro", "avro", "hex", "hex"]
    assert shown[0].value == {"id": 1, "note": "first", "raw": "/w=="}
    assert shown[0].text == '{"id": 1, "note": "first", "raw": "/w=="}'
    assert shown[2].note == "not of its Avro schema 77: EOFError"
    assert shown[3].note == "no Avro schema 78 in the log"
    by_field = search(log, shop, Filter(where=("note=first",)), decoder)
    assert [r.offset for r in by_field.records] == [0]
    by_word = search(log, shop, Filter(grep="first"), decoder)
    assert [r.offset for r in by_word.records] == [0]
