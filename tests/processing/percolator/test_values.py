"""Documents with values of every type: a stored query finds those that Spark's own condition does."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import functions as F  # noqa: N812

import headwater as hw
from headwater.processing import percolator
from headwater.processing.joins.versions import Change
from headwater.processing.percolator.documents import document
from headwater.processing.percolator.fields import BadQuery, fields_of
from headwater.processing.percolator.stored_queries import Standing
from headwater.testing.rehearsal import Rehearsal
from tests.conftest import SOAK

pytestmark = pytest.mark.timeout(900)

MOMENTS = ["0001-01-01 00:00:00", "1677-09-21 00:12:44", "1999-12-31 23:59:59.999999", "2026-03-29 02:30:00",
           "2262-04-12 00:00:00", "9999-12-31 23:59:59.999999", "12026-01-01 00:00:00"]  # fmt: skip
VALUES = {
    "i8": ("TINYINT", ["-128", "127", "0"]),
    "i16": ("SMALLINT", ["-32768", "5"]),
    "i32": ("INT", ["2147483647", "5"]),
    "i64": ("BIGINT", [str(2**63 - 1), str(-(2**63)), str(2**53 + 1), "5"]),
    "f32": ("FLOAT", ["0.5", "-0.0", "0.0", "NaN", "3.4028235E38", "-Infinity"]),
    "f64": ("DOUBLE", ["964.0735001267689", "-0.0", "0.0", "NaN", "Infinity", "5E-324", "9.99"]),
    "d5": ("DECIMAL(5,2)", ["9.99", "10.00", "-0.01"]),
    "d38": ("DECIMAL(38,18)", ["12345678901234567890.123456789012345678", "9.99"]),
    "text": (
        "STRING",
        ["", "Café", "Cafe\u0301 noir", "😀 smile", 'a "quoted" \\ word', "nul\x00x"],
    ),
    "bytes": ("BINARY", ["abc"]),
    "day": ("DATE", [each[:-15] if "." in each else each[:-9] for each in MOMENTS]),
    "ts": ("TIMESTAMP", MOMENTS),
    "ntz": ("TIMESTAMP_NTZ", MOMENTS),
    "yes": ("BOOLEAN", ["true", "false"]),
}
MADE = {
    "days": "array(day, NULL, DATE'2026-01-01')",
    "words": "IF(yes, NULL, array(text, NULL))",
    "lists": "array(array(text, NULL), NULL, array('deep'))",
    "numbers": "array(f64, NULL, CAST(d5 AS DOUBLE))",
    "nothing": "CAST(NULL AS ARRAY<TIMESTAMP>)",
    "by_day": "map(coalesce(day, DATE'2026-01-01'), text)",
    "by_text": "map('a', text, 'b', NULL)",
    "inner": "IF(yes, NULL, named_struct('ts', ts, 'd', d5, 'f', f64, 'day', day, 'w', text, "
    "'deep', named_struct('m', map('k', i32), 'l', array(d38, NULL)), 'b', bytes))",
    "months": "INTERVAL '1-2' YEAR TO MONTH",
    "span": "INTERVAL '1 02:03:04.000005' DAY TO SECOND",
    "void": "NULL",
}
# tantivy's words, and the same in Spark's. By the second, as an index has no fractions of one.
ASKED = {
    "i8:127": "i8 = 127",
    "i16:[-32768 TO 0]": "i16 BETWEEN -32768 AND 0",
    "i32:>5": "i32 > 5",
    "i64:9223372036854775807": "i64 = 9223372036854775807",
    "i64:9007199254740993": "i64 = 9007199254740993",
    "f32:0": "f32 = 0",
    "f32:>1": "f32 > 1 AND NOT isnan(f32)",
    "f32:<0": "f32 < 0",
    "f64:964.0735001267689": "f64 = 964.0735001267689D",
    "f64:>=0": "f64 >= 0 AND NOT isnan(f64)",
    "f64:>1000": "f64 > 1000 AND NOT isnan(f64)",
    "d5:9.99": "d5 = 9.99",
    "d5:[9.99 TO 10]": "d5 BETWEEN 9.99 AND 10",
    "d38:>100": "d38 > 100",
    "text:café": "text IN ('Café', 'Cafe\u0301 noir')",
    "text:cafe\u0301": "text IN ('Café', 'Cafe\u0301 noir')",
    "text:smile": "text LIKE '%smile'",
    "yes:true": "yes",
    "day:[2000-01-01T00:00:00Z TO *]": "day >= DATE'2000-01-01'",
    "day:<2000-01-01T00:00:00Z": "day < DATE'2000-01-01'",
    'day:"1999-12-31T00:00:00Z"': "day = DATE'1999-12-31'",
    "ts:>=2026-03-29T02:30:00Z": "ts >= TIMESTAMP'2026-03-29 02:30:00Z'",
    "ts:<2000-01-01T00:00:00Z": "ts < TIMESTAMP'2000-01-01 00:00:00Z'",
    "ntz:>=2026-03-29T02:30:00Z": "ntz >= TIMESTAMP_NTZ'2026-03-29 02:30:00'",
    'ntz:"2026-03-29T02:30:00Z"': "ntz = TIMESTAMP_NTZ'2026-03-29 02:30:00'",
    "days:>=2200-01-01T00:00:00Z": "exists(days, d -> d >= DATE'2200-01-01')",
    "words:smile": "exists(words, w -> w LIKE '%smile')",
    "lists:deep": "true",
    "lists:smile": "text LIKE '%smile'",
    "numbers:9.99": "exists(numbers, n -> n = 9.99)",
    "nothing:*": "false",
    "inner.d:9.99": "inner.d = 9.99",
    "(+inner.d:>=9 +inner.d:<=9.995)": "inner.d BETWEEN 9 AND 9.995",
    "inner.f:>1000": "inner.f > 1000 AND NOT isnan(inner.f)",
    "inner.f:964.0735001267689": "inner.f = 964.0735001267689D",
    "inner.ts:>2100-01-01T00:00:00Z": "inner.ts > TIMESTAMP'2100-01-01 00:00:00Z'",
    "inner.w:smile": "inner.w LIKE '%smile'",
    'inner.day:"9999-12-31"': "inner.day = DATE'9999-12-31'",
    "inner.deep.m.k:5": "inner.deep.m['k'] = 5",
    "inner.deep.l:9.99": "exists(inner.deep.l, l -> l = 9.99)",
}


def drawn(spark: Any, seed: int, count: int) -> Any:
    chance = random.Random(seed)
    rows = [
        (
            n,
            *(
                None if chance.random() < 0.2 else chance.choice(values)
                for _, values in VALUES.values()
            ),
        )
        for n in range(count)
    ]
    texts = spark.createDataFrame(
        rows, "id BIGINT, " + ", ".join(f"{name} STRING" for name in VALUES)
    )
    typed = texts.selectExpr(
        "id", *(f"CAST({name} AS {kind}) AS {name}" for name, (kind, _) in VALUES.items())
    )
    return typed.selectExpr("*", *(f"{made} AS {name}" for name, made in MADE.items()))


@pytest.fixture(scope="module")
def schema(headwater_spark: Any) -> Any:
    return drawn(headwater_spark, 1, 1).schema


@pytest.mark.parametrize("seed", range(10) if SOAK else [2])
def test_a_query_finds_what_the_same_condition_in_spark_does(
    headwater_spark: Any, seed: int
) -> None:
    frame = drawn(headwater_spark, seed, 60)
    fields = fields_of(frame.schema, None, "default")
    stored = [Change(query, 0, 0, 0, n, query) for n, query in enumerate(ASKED)]
    for query in ASKED:
        fields.admit(query)
    rows = frame.select("id", document(frame.schema, fields).alias("text")).orderBy("id").collect()
    standing = Standing(fields).after(stored)
    found: dict[str, list[int]] = {query: [] for query in ASKED}
    for number, query in standing.matches([row.text for row in rows], [1] * len(rows)):
        found[query].append(rows[number].id)
    columns = [F.expr(condition).alias(f"c{n}") for n, condition in enumerate(ASKED.values())]
    truth = frame.select("id", *columns).orderBy("id").collect()
    for number, query in enumerate(ASKED):
        expected = [row.id for row in truth if row[f"c{number}"]]
        assert sorted(found[query]) == expected, query
    assert sum(map(len, found.values())) > 300


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("ts:>9999-12-31T00:00:00Z", "dates are between 1677-09-21 and 2262-04-11"),
        ("day:[0001-01-01T00:00:00Z TO *]", "dates are between"),
        ("ts:[* TO 2262-04-11T23:47:16Z]", "dates are between"),
        ("inner.ts:<9999-12-31T00:00:00Z", "dates are between"),
        ('inner.ts:"9999-12-31T00:00:00Z"', "dates are between"),
        ("ts:>2026-01-01T00:00:00.5Z", "compared by the second"),
        ("inner.d:[9 TO 9.995]", "bounds of two kinds apart"),
        ("text:*", "not a fast field"),
        ("yes:[false TO true]", "invalid argument"),
        ("f64:>=inf", "numbers are finite"),
        ("f64:NaN", "numbers are finite"),
        ("f64:-0.0", "zero has no sign"),
        ("text:😀", "no word in it"),
        ("bytes:abc", "bytes"),
        ("by_text.a:x", "by_text"),
        ("by_day:x", "by_day"),
        ("months:1", "months"),
        ("void:1", "void"),
        ("i64:9223372036854775808", "valid integer"),
        ("day:2026-01-01", "invalid format"),
        ("yes:perhaps", "bool"),
    ],
)
def test_what_an_index_cannot_answer_is_refused_in_words(
    schema: Any, query: str, reason: str
) -> None:
    fields = fields_of(schema, None, "default")
    with pytest.raises(BadQuery, match=reason):
        fields.admit(query)


@pytest.mark.parametrize("name", ["bytes", "by_day", "by_text", "months", "span", "void"])
def test_a_column_with_nothing_to_search_in_cannot_be_a_field(schema: Any, name: str) -> None:
    with pytest.raises(BadQuery, match=f"the column {name} has nothing to search in"):
        fields_of(schema, [name], "default")


SCHEMA = "id BIGINT, day DATE, ntz TIMESTAMP_NTZ, words ARRAY<STRING>, price DECIMAL(38,18), at TIMESTAMP"
OFFERS = [
    {"id": 1, "day": "9999-12-31", "ntz": "2026-03-29T02:30:00.000001", "words": ["flat", None]},
    {
        "id": 2,
        "day": "0001-01-01",
        "ntz": "0001-01-01T00:00:00.123456",
        "words": None,
        "price": 9.99,
    },
    {"id": 3, "day": None, "ntz": None, "words": [None], "at": "9999-12-31T23:59:59.999999Z"},
    {"id": 4},
]
QUERIES = {
    "later": "day:>2026-01-01T00:00:00Z",
    "earlier": "ntz:<2000-01-01T00:00:00Z",
    "flat": "words:flat",
    "dear": "price:[9.99 TO 9.99]",
    "never": "at:>2200-01-01T00:00:00Z",
}


@pytest.mark.soak  # `make test` has the stream in test_running, and the values in a batch above
def test_no_value_stops_the_stream_and_what_is_kept_is_unchanged(headwater_test: Rehearsal) -> None:
    test = headwater_test

    @hw.view("found")
    def found() -> Any:
        offers = hw.stream("offers", schema=SCHEMA)
        kept = offers.withColumn("by_day", F.expr("map(coalesce(day, DATE'2026-01-01'), ntz)"))
        pairs = percolator.match(kept, "saved", keep=["id", "by_day"])
        return pairs.withColumn("by_day", F.col("by_day").cast("string"))

    test.topic("saved")
    producer = Producer({"bootstrap.servers": test.bootstrap, "log_level": 0})
    bad = {"far": "day:<9999-01-01T00:00:00Z"}
    for key, query in {**QUERIES, **bad}.items():
        value = json.dumps({"query": query})
        producer.produce("saved", value, key, timestamp=test.clock.now_ms() - 1000)
    assert producer.flush(60) == 0
    test.send("offers", *OFFERS[:2])
    test.run("found")
    test.kill()
    test.send("offers", *OFFERS[2:])
    test.run()
    rows = test.changes("found")
    assert sorted((row["query"], row["id"]) for row in rows) == [
        ("dear", 2), ("earlier", 2), ("flat", 1), ("later", 1), ("never", 3)
    ]  # fmt: skip
    (kept,) = {row["by_day"] for row in rows if row["id"] == 1}
    assert kept == "{9999-12-31 -> 2026-03-29 02:30:00.000001}"
    assert sorted(map(repr, test.batch("found"))) == sorted(map(repr, rows))
    (letter,) = test.records("dlq.headwater-found")
    assert letter.key() == b"far"
    assert "dates are between" in dict(letter.headers())["__dlq.errors.message"].decode()
