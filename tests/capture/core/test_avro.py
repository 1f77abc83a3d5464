"""Debezium's envelope as Avro: read with fastavro alone, by the schema that its number names."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest

from headwater.capture.avro import AvroEncoder, field_name
from headwater.capture.config import CaptureConfig
from headwater.capture.envelope import UNAVAILABLE, Column
from headwater.capture.errors import Misconfigured, SourceRefused

SOURCE_SCHEMA = {
    "type": "struct",
    "fields": [
        {"type": "string", "optional": False, "field": "db"},
        {"type": "int64", "optional": True, "field": "lsn"},
    ],
    "optional": False,
    "name": "io.debezium.connector.postgresql.Source",
}
ITEMS = {"type": "int32", "optional": True}
SHAPE = {"type": "struct", "name": "io.debezium.data.geometry.Geometry"}
SHAPE_FIELDS = [
    {"type": "bytes", "optional": False, "field": "wkb"},
    {"type": "int32", "optional": True, "field": "srid"},
]
COLUMNS = [
    Column("id", (("type", "int32"),), False),
    Column("day", (("type", "int32"), ("name", "io.debezium.time.Date"), ("version", 1))),
    Column("big", (("type", "int64"),)),
    Column("ratio", (("type", "double"),)),
    Column("flag", (("type", "boolean"),)),
    Column("raw", (("type", "bytes"),)),
    Column("numbers", (("type", "array"), ("items", ITEMS))),
    Column("here", (*SHAPE.items(), ("fields", SHAPE_FIELDS))),
    Column("there", (*SHAPE.items(), ("fields", SHAPE_FIELDS))),
    Column("50% odd"),
]
ROW = ["7", "20000", "-9223372036854775808", '"NaN"', "true", '"AP8="', "[1,null]"]
ROW += ['{"wkb":"AA==","srid":null}', "null", '"ä"']
SOURCE, REST = '{"db":"shop","lsn":9}', ',"ts_ms":5,"ts_us":6,"ts_ns":7,"transaction":null'


def encoder(columns: list[Column] = COLUMNS, key: tuple[int, ...] = (0,)) -> AvroEncoder:
    return AvroEncoder("shop.t", columns, key, SOURCE_SCHEMA)


def decoded(made: AvroEncoder, data: bytes | None) -> Any:
    """As a stranger reads it: the number, the schema of that number, the rest."""
    schemas = {
        json.loads(key or b"")["id"]: json.loads(json.loads(value or b"")["schema"])
        for _, key, value, *_ in made.schema_records("shop.avro-schemas")
    }
    assert data is not None and data[0] == 0
    rest = io.BytesIO(data[5:])
    found = fastavro.schemaless_reader(rest, schemas[int.from_bytes(data[1:5], "big")], None)
    assert not rest.read()
    return found


def test_a_row_is_read_back_with_fastavro_and_the_schema_of_its_number() -> None:
    made = encoder()
    _, key, value = made.created(ROW, SOURCE, REST)[:3]
    assert decoded(made, key) == {"id": 7}
    found = decoded(made, value)
    assert str(found["after"].pop("ratio")) == "nan"
    assert found == {
        "before": None,
        "after": {
            "id": 7,
            "day": 20000,
            "big": -(2**63),
            "flag": True,
            "raw": b"\0\xff",
            "numbers": [1, None],
            "here": {"wkb": b"\0", "srid": None},
            "there": None,
            "_50__odd": "ä",
        },
        "source": {"db": "shop", "lsn": 9},
        "transaction": None,
        "op": "c",
        "ts_ms": 5,
        "ts_us": 6,
        "ts_ns": 7,
    }


def test_updates_deletes_and_truncates_have_the_same_envelope_and_tombstones_stay_empty() -> None:
    made = encoder(COLUMNS[:1])
    update = made.updated(["7"], ["7"], SOURCE, REST)
    moved = made.updated(["7"], ["8"], SOURCE, REST)
    found = [decoded(made, record[2]) for record in (*update, moved[0], moved[2])]
    assert [(one["before"], one["after"], one["op"]) for one in found] == [
        ({"id": 7}, {"id": 7}, "u"),
        ({"id": 7}, None, "d"),
        (None, {"id": 8}, "c"),
    ]
    assert moved[1][2] is None and moved[1][1] == moved[0][1]
    assert decoded(made, made.truncated(SOURCE, REST)[2])["op"] == "t"


def test_a_schema_has_the_same_number_in_every_run_and_another_when_columns_change() -> None:
    first, again, other = (encoder(c).schema_records("s") for c in (COLUMNS, COLUMNS, COLUMNS[:2]))
    assert first == again
    assert first[1][1] != other[1][1], "the value's schema"
    assert first[0][1] == other[0][1], "the key's is what it was: keys stay in their partitions"


def test_what_its_type_cannot_hold_is_refused_by_name_and_left_out_values_with_the_remedy() -> None:
    made = encoder()
    for place, fragment in ((0, "2147483648"), (2, '"x"'), (4, "1"), (5, '"é"'), (6, "[[1]]")):
        with pytest.raises(SourceRefused, match=f"column '{COLUMNS[place].name}'"):
            made.created([*ROW[:place], fragment, *ROW[place + 1 :]], SOURCE, REST)
    with pytest.raises(SourceRefused) as refused:
        made.created([*ROW[:6], UNAVAILABLE, *ROW[7:]], SOURCE, REST)
    assert "REPLICA IDENTITY FULL" in str(refused.value.hint)
    kept = made.created([*ROW[:5], UNAVAILABLE, *ROW[6:9], UNAVAILABLE], SOURCE, REST)
    after = decoded(made, kept[2])["after"]
    assert after["raw"] == b"__debezium_unavailable_value" == after["_50__odd"].encode()


def test_names_that_avro_does_not_allow_are_mended_and_two_that_become_one_are_refused() -> None:
    assert [field_name(name) for name in ("a-b", "1st", "", "ok")] == ["a_b", "_1st", "_", "ok"]
    with pytest.raises(Misconfigured, match="same name"):
        encoder([Column("a-b"), Column("a_b")], ())


def test_a_format_is_json_or_avro_and_avro_carries_no_schema_in_records() -> None:
    with pytest.raises(Misconfigured, match="not known"):
        CaptureConfig("shop", "sqlite:x", format="xml")
    with pytest.raises(Misconfigured, match="in the registry"):
        CaptureConfig("shop", "sqlite:x", format="avro", schema=True)
