"""The quick decoder against Spark's, over values that hurt: whatever it says, Spark says the same."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.views.tables.bad_values import BadValue
from headwater.views.tables.decoder import COLUMNS, Decoder, Table
from headwater.views.tables.envelopes import EnvelopeDecoder

RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
ROW = (
    "id BIGINT, small SMALLINT, number INT, x DOUBLE, f FLOAT, ok BOOLEAN, name STRING, day DATE, "
    "at TIMESTAMP, price DECIMAL(9,2), tags ARRAY<STRING>, inner STRUCT<a: INT, b: STRING>, "
    "m MAP<STRING, INT>, source STRING"
)
QUICK = ROW.replace("f FLOAT, ", "").replace("m MAP<STRING, INT>, ", "")
COLUMNS_OF = {
    "quick": (QUICK, ("id",), ("lower(`name`)",)),
    "slow": (ROW, ("id",), ()),
    "pair": ("a INT, b STRING, x DOUBLE", ("a", "b"), ()),
    "text": ("id STRING, name STRING", ("id",), ()),
    "ours": ("id BIGINT, op STRING, payload STRING", ("id",), ()),
    "price": ("id DECIMAL(9,2), n BIGINT", ("id",), ()),
}


def tables() -> list[Table]:
    return [
        Table(topic, StructType.fromDDL(ddl), key, derived)
        for topic, (ddl, key, derived) in COLUMNS_OF.items()
    ]


VALUES = [
    *("1", "0", "-0", "-1", "1.0", "1.5", "-0.0", "1e3", "1E400", "-1e-400", "4.9e-324", "NaN"),
    *(
        "Infinity",
        '"NaN"',
        '"Infinity"',
        '"1"',
        '" 1"',
        '"1 "',
        '""',
        '"x"',
        "true",
        "false",
        '"true"',
    ),
    *("null", "[]", "{}", "[null]", '["a", null]', "[1]", "[[]]", '{"a": 1}', '{"a": "1", "b": 2}'),
    *('{"a": 1, "b": "x", "c": {}}', '{"a": 1, "a": 2}', '{"a": "x", "a": 2}', "32767", "32768"),
    *("-32768", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", "123456789012345678901234567890"),
    *("9007199254740993", "0.1", "1.7976931348623157e308", "1.23", "1.235", '"1.23"', '"1.235"'),
    *(
        '"12345678.9"',
        '"1234567.89"',
        '"-0.10"',
        '"+1.5"',
        '"1e2"',
        '"007.50"',
        '".5"',
        '"1."',
        "01",
    ),
    *(
        '"2024-02-29"',
        '"2023-02-29"',
        '"2024-2-9"',
        '"2024-02-29T10:11:12"',
        '"2024-02-29 10:11:12"',
    ),
    *('"2024-02-29T10:11:12Z"', '"2024-02-29T10:11:12.123456Z"', '"2024-02-29T10:11:12.1234567Z"'),
    *('"2024-02-29T10:11:12+01:00"', '"2024-02-29T10:11:12-14:30"', '"2024-02-29T24:00:00Z"'),
    *('"2024-02-29T23:59:60Z"', '"1899-12-31T00:00:00+00:53"', '"0001-01-01"', '"0000-01-01"'),
    *(
        '"9999-12-31T23:59:59.999999Z"',
        '"10000-01-01"',
        '"1582-10-10"',
        "1700000000",
        "1700000000.5",
    ),
    *(r'"\u0000"', r'"\ud83d\ude00"', r'"\ud800"', r'"\ud800x"', '"ü€😀"', r'"a\"b\\"', r'"\":1"'),
    *(r'"{\"id\": 1}"', r'"a\/b"', "'single'", '"tab\tinside"', r'"\x41"', "undefined", "١٢"),
]


def batch_of(records: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = zip(*records, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, RECORDS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def shown(found: list[pa.Table]) -> list[dict[int, str]]:
    """Changes by table and offset, as text: -0.0 is not 0.0, and 1 is not True."""
    return [
        {row["o"]: repr(sorted(row.items())) for row in in_numbers(each).to_pylist()}
        for each in found
    ]


def in_numbers(changes: pa.Table) -> pa.Table:
    """Python knows no year 0 and no year 10000, which Spark and Arrow do."""
    for n, kind in enumerate(changes.schema.types):
        if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            number = pa.int32() if pa.types.is_date(kind) else pa.int64()
            name = changes.column_names[n]
            changes = changes.set_column(n, name, changes.column(n).cast(number))
    return changes


def compare(spark: SparkSession, values: list[tuple[str, bytes | None, bytes | None]]) -> None:
    records = [(key, value, topic, 0, n, n) for n, (topic, key, value) in enumerate(values)]
    used = [each for each in tables() if each.topic in {topic for topic, *_ in values}]
    quick_bad, strict_bad = list[BadValue](), list[BadValue]()
    quick = EnvelopeDecoder(used, spark, quick_bad.extend)([batch_of(records)])
    frame = spark.createDataFrame(pa.Table.from_batches([batch_of(records)]))
    strict = Decoder(used, strict_bad.extend)(frame.select(*COLUMNS))
    different = [
        (table.topic, values[offset], one.get(offset), other.get(offset))
        for table, one, other in zip(used, shown(quick), shown(strict), strict=True)
        for offset in sorted({*one, *other})
        if one.get(offset) != other.get(offset)
    ]
    assert different == []
    assert sorted(quick_bad) == sorted(strict_bad)


def envelopes(row: str) -> list[str]:
    return [
        row,
        f'{{"op": "c", "before": null, "after": {row}, "source": {{"a": [{{"b": 1}}]}}, "ts_ms": 1}}',
        f'{{"schema": {{}}, "payload": {{"op": "u", "before": {row}, "after": {row}}}}}',
        f'{{"op": "d", "before": {row}, "after": null}}',
    ]


@pytest.mark.parametrize("topic", ["quick", "slow"])
def test_every_value_in_every_column_and_form_is_read_as_spark_reads_it(
    spark: SparkSession, topic: str
):
    table = next(each for each in tables() if each.topic == topic)
    rows = [
        f'{{"id": 7, "{name}": {value}}}' if name != "id" else f'{{"id": {value}, "number": 7}}'
        for name in table.row.names
        for value in VALUES
    ]
    forms = [form for row in rows for form in envelopes(row)[:2]]
    compare(spark, [(topic, b'{"id": 7}', form.encode()) for form in forms])


ODD = [
    "",
    " ",
    "null",
    "5",
    "[]",
    "[{}]",
    '"x"',
    "{",
    "{}",
    "{} {}",
    '{"id": 1}{"id": 2}',
    '{"id": 1} x',
    ' {"id": 1} \n',
    '{"id": 1}, ',
    '\ufeff{"id": 1}',
    "{'id': 1}",
    "{id: 1}",
    '{"id": 1,}',
    '{"id" : 1}',
    '{"id": 1, "id": 2}',
    '{"id": "x", "id": 2}',
    '{"id": 2, "id": null}',
    '{"ID": 1}',
    '{"id": 1 /* */}',
    '{"op": null, "id": 1}',
    '{"op": 1, "id": 1}',
    '{"op": "c"}',
    '{"op": "c", "id": 1}',
    '{"op": "t"}',
    '{"op": "t", "before": null, "after": null}',
    '{"op": "t", "before": {"id": 1}}',
    '{"op": "r", "after": {}}',
    '{"op": "u", "before": {}, "after": {"id": 1}}',
    '{"op": "u", "before": {"id": 2}, "after": {"id": 1}}',
    '{"op": "u", "before": {"id": null}, "after": {"id": 1}}',
    '{"op": "u", "before": {"id": 2}, "after": null}',
    '{"op": "d", "before": {"id": 2}, "after": {"id": 3, "name": "x"}}',
    '{"op": "d", "before": {}}',
    '{"op": "d", "before": null, "after": null}',
    '{"op": "d", "after": {"id": 3}}',
    '{"op": {}, "after": {"id": 3}}',
    '{"op": "u", "after": []}',
    '{"op": "u", "after": "{}"}',
    '{"op": "u", "before": 1, "after": {"id": 1}}',
    '{"op": "u", "before": {"id": "x"}, "after": {"id": 1}}',
    '{"before": {"id": 1}, "after": {"id": 2}}',
    '{"payload": null, "id": 1}',
    '{"payload": {"id": 1}}',
    '{"payload": {"id": 1}, "schema": null}',
    '{"payload": {"id": 1}, "schema": {}}',
    '{"payload": {"id": 1}, "schema": ""}',
    '{"payload": [], "id": 1}',
    '{"payload": "x", "schema": {}, "id": 1}',
    '{"payload": {"op": "c", "after": {"id": 1}}}',
    '{"payload": {"op": "c", "after": {"id": 1}}, "op": "c", "after": {"id": 2}}',
    '{"payload": {"payload": {"id": 1}, "schema": {}}, "schema": {}}',
    '{"schema": {}, "id": 1}',
    '{"op": "c", "after": {"id": 1}, "id": "x"}',
    '{"op": "c", "after": {"id": 1}, "number": []}',
    '{"op": "c", "after": {"id": 1}, "op": "d"}',
    '{"op": "c", "after": {"id": "x"}, "after": {"id": 1}}',
    '{"op": "c", "after": {"id": 1, "name": "\\": "}}',
    '{"op": "c", "after": {"id": 1, "a\\\\": 1}}',
    '{"a": 1, "b": "x"}',
    '{"a": 1}',
    '{"op": "u", "before": {"a": 1, "b": "y"}, "after": {"a": 1, "b": "x"}}',
    '{"op": "u", "before": {"a": 2}, "after": {"a": 1, "b": "x"}}',
    '{"op": "d", "before": {"a": 1}}',
    '{"x": ' + "[" * 90 + "]" * 90 + ', "id": 1, "a": 1, "b": ""}',
    '{"x": ' + "[" * 1010 + "]" * 1010 + ', "id": 1}',
]
KEYS = [
    None,
    b"",
    b"1",
    b'"1"',
    b'""1""',
    b" 1",
    b"x",
    b"null",
    b"{}",
    b'{"id": 1}',
    b'{"id": "1"}',
    b'{"id": null}',
    b'{"payload": {"id": 3}, "schema": {}}',
    b'{"payload": null, "id": 4}',
    b'{"payload": "{}"}',
    b'{"payload": [1]}',
    b'{"id": 1, "id": 2}',
    b'{"id": "x", "id": 2}',
    b'{"a": 1, "b": "x"}',
    b'{"a": 1}',
    b"[1]",
    b"\xff",
    b"\xc3\xbc",
    b'"\\u00fc"',
    b'"a\\"b"',
    b'{"id": 1} x',
    b"9223372036854775807",
    b"9223372036854775808",
    b"1.5",
    b"1.50",
    b"-1",
    b"+1",
    b"1e2",
]


@pytest.mark.parametrize("topic", ["quick", "pair", "text", "ours"])
def test_every_form_of_a_value_is_read_as_spark_reads_it(spark: SparkSession, topic: str):
    compare(
        spark,
        [
            (topic, key, value.encode())
            for value in ODD
            for key in (None, b'{"id": 9, "a": 9, "b": "k"}')
        ],
    )


@pytest.mark.parametrize("topic", ["quick", "pair", "text", "price"])
def test_every_key_of_a_delete_is_read_as_spark_reads_it(spark: SparkSession, topic: str):
    gone = b'{"op": "d", "before": {"name": "x", "a": null}, "after": null}'
    compare(spark, [(topic, key, value) for key in KEYS for value in (None, gone)])


def test_bytes_that_are_no_text_are_read_as_spark_reads_them(spark: SparkSession):
    values = [
        b"\xff",
        b'{"id": 1, "name": "\xff"}',
        b'{"id": 1, "name": "\xed\xa0\x80"}',
        b"\x00",
        b'{"id": 1}\x00',
    ]
    compare(spark, [("quick", None, value) for value in values])


TEXTS = st.text(max_size=8) | st.sampled_from(["1", "2024-01-01", "2024-01-01T00:00:00Z", "1.5"])
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [*(each.split()[0] for each in QUICK.split(", ")), "op", "before", "after", "payload", "schema"]
)
OBJECTS = st.dictionaries(NAMES, ANY | st.dictionaries(NAMES, ANY, max_size=4), max_size=5)


@settings(max_examples=5, deadline=None, suppress_health_check=[*HealthCheck])
@given(st.lists(OBJECTS, min_size=60, max_size=120))
def test_what_chance_makes_is_read_as_spark_reads_it(spark: SparkSession, values: list[Any]):
    compare(
        spark,
        [
            ("quick", b"7", json.dumps(each, ensure_ascii=False).encode("utf-8", "surrogatepass"))
            for each in values
        ],
    )


def test_what_capture_writes_needs_no_second_look(spark: SparkSession):
    """The reason for all of this: the usual value is read without Spark."""
    row = {
        "id": 1,
        "small": 2,
        "number": 3,
        "x": 1.5,
        "ok": True,
        "name": 'a "quoted": name',
        "tags": ["x"],
    }
    row |= {
        "day": "2024-01-01",
        "at": "2024-01-01T10:00:00.5Z",
        "price": "12.50",
        "inner": {"a": 1},
    }
    values = [
        row,
        {
            "op": "c",
            "before": None,
            "after": row,
            "source": {"ts_ms": 1, "sequence": [1, {"x": {}}]},
        },
        {"schema": {}, "payload": {"op": "u", "before": row, "after": row}},
        {"op": "d", "before": row, "after": None},
        {"op": "t", "before": None, "after": None},
    ]
    records = [
        (b'{"id": 1}', json.dumps(each).encode(), "quick", 0, n, n) for n, each in enumerate(values)
    ]
    records.append((b'{"id": 1}', None, "quick", 0, len(values), 0))
    decoder = EnvelopeDecoder(tables()[:1], spark)
    decoder._strict = None  # type: ignore[assignment]
    (found,) = decoder([batch_of(records)])
    assert found.num_rows == len(records)


def test_a_field_that_is_there_twice_is_seen_however_its_colon_is_written(spark: SparkSession):
    values = ['{"id":7,"number":"x","number" : 5}', '{"op":"c","after":{"id":7,"x":"","x" :5}}']
    compare(spark, [("quick", None, each.encode()) for each in values])
