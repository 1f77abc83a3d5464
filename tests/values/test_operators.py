"""Joins, sliding windows, patterns, search, requests, sketches: rows come as Spark's batch has them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import headwater as hw
from headwater import processing as p
from headwater.errors import HeadwaterError
from headwater.pipelines.rows import EXACT
from headwater.processing import joins, percolator, request_reply
from headwater.processing.patterns import match
from headwater.processing.request_reply.headers import CORRELATION_ID, REPLY_TOPIC
from headwater.testing.rehearsal import Rehearsal
from tests.values.operated import (
    EVENTS,
    NAMES,
    OPERATED,
    SCHEMA,
    counted,
    differing,
    end,
    events,
    letters,
    seen,
    send,
)

pytestmark = pytest.mark.timeout(900)


def priced(spark: Any) -> DataFrame:
    """A table with texts that hurt as its keys."""
    texts = events(spark).where("text IS NOT NULL").select("text", "id")
    return texts.select(
        "text",
        (F.col("id").cast("decimal(38,18)") + F.lit("0.000000000000000001").cast("decimal(38,18)"))
        .cast("decimal(38,18)")
        .alias("price"),
        F.lit("2026-01-01T09:00:00.000001Z").cast("timestamp").alias("since"),
        F.lit("2026-03-29T02:30:00.000001").cast("timestamp_ntz").alias("paid"),
    )


def compare(test: Rehearsal, view: str, oracle: DataFrame, names: list[str]) -> None:
    found, wanted = seen(test, view, names), counted(oracle, names)
    assert wanted and found == wanted, f"{view}:\n{differing(names, found, wanted)}"
    assert letters(test, view) == [], view


def read(**more: Any) -> DataFrame:
    return p.event_stream(EVENTS, schema=SCHEMA, time="at", lateness="1 minute", **more)


def test_joins_carry_every_value_and_find_every_key(headwater_test: Rehearsal) -> None:
    spark = headwater_test.spark
    schema = "text STRING, price DECIMAL(38,18), since TIMESTAMP, paid TIMESTAMP_NTZ"

    @hw.view("dated")
    def dated() -> DataFrame:
        table = joins.changes("prices", schema=schema, key="text")
        return joins.as_of(
            read(),
            table,
            at="at",
            valid_from="since",
            lateness="1 minute",
            backdated=True,
            groups=2,
        )

    @hw.view("enriched")
    def enriched() -> DataFrame:
        return joins.enrich(
            hw.stream(EVENTS, schema=SCHEMA),
            joins.changes("prices", schema=schema, key="text"),
            groups=2,
        )

    @hw.view("paired", mode="append")
    def paired() -> DataFrame:
        right = hw.stream("others", schema=SCHEMA).select("text", F.col("at").alias("then"), "id")
        return joins.within(
            hw.stream(EVENTS, schema=SCHEMA),
            right.withColumnRenamed("id", "other"),
            on="text",
            times=("at", "then"),
            between=("-1 hour", "1 hour"),
            how="inner",
            lateness="1 minute",
        )

    frame, prices = events(spark), priced(spark)
    send(headwater_test, prices, "prices", key="text")
    send(headwater_test, frame)
    send(headwater_test, frame, "others")
    headwater_test.run()
    end(headwater_test)
    end(headwater_test, "others")
    headwater_test.send("prices", {"text": "over", "since": "2026-01-03T00:00:00Z"}, key="text")
    headwater_test.run()
    end(
        headwater_test, day=4
    )  # what waits is decided in the batch after the one that ends its time
    headwater_test.run()
    expected = frame.join(prices, "text", "left")
    names = [*NAMES, "price", "paid"]
    compare(headwater_test, "enriched", expected, names)
    compare(headwater_test, "dated", expected, names)
    twice = frame.join(frame.select("text", F.col("id").alias("other")), "text")
    compare(headwater_test, "paired", twice, [*NAMES, "other"])


@pytest.mark.soak  # in one batch: processing/windows/test_sliding_values
def test_sliding_windows_give_what_they_give_in_batch(headwater_test: Rehearsal) -> None:
    def seen_so_far(frame: DataFrame) -> DataFrame:
        return p.sliding(
            frame, "k", "10 minutes", time="at", n=p.count(), n_text=p.count("text"),
            sum_double=p.sum("double"), least=p.min("double"), most=p.max("large"),
        )  # fmt: skip

    hw.view("slid")(lambda: seen_so_far(read()))
    frame = events(headwater_test.spark)
    send(headwater_test, frame)
    headwater_test.run()
    end(headwater_test)
    headwater_test.run()
    compare(
        headwater_test, "slid", seen_so_far(frame),
        [*NAMES, "n", "n_text", "sum_double", "least", "most"],
    )  # fmt: skip


@pytest.mark.soak  # processing/patterns/test_like_spark asks each of Spark
def test_patterns_measure_every_value(headwater_test: Rehearsal) -> None:
    measured = [each.name for each in OPERATED if each.ddl != "BINARY" and "<" not in each.ddl]

    @hw.view("matched")
    def matched() -> DataFrame:
        return match(
            read(), key=["k", "id"], pattern="A", define={"A": "id >= 0"}, within="1 minute",
            measures={f"m_{name}": f"last({name})" for name in measured},
        )  # fmt: skip

    frame = events(headwater_test.spark)
    send(headwater_test, frame)
    headwater_test.run()
    end(headwater_test)
    headwater_test.run()
    names = ["k", "id", *(f"m_{name}" for name in measured)]
    expected = frame.select("k", "id", *(F.col(name).alias(f"m_{name}") for name in measured))
    compare(headwater_test, "matched", expected, names)


@pytest.mark.soak  # in one batch: processing/percolator/test_values
def test_search_finds_words_beside_every_value(headwater_test: Rehearsal) -> None:
    @hw.view("found")
    def found() -> DataFrame:
        saved = percolator.queries("saved")
        pairs = percolator.match(hw.stream(EVENTS, schema=SCHEMA), saved, keep=["id", "k"])
        return pairs.select("id", "k")

    frame = events(headwater_test.spark)
    headwater_test.send("saved", {"id": "q", "query": "text:word"}, key="id")
    headwater_test.run()
    send(headwater_test, frame)
    headwater_test.run()
    compare(headwater_test, "found", frame.where("text LIKE '%word%'"), ["id", "k"])


@pytest.mark.soak  # joined: processing/request_reply; through a stream: test_records
def test_answers_have_every_value_of_their_question(headwater_test: Rehearsal) -> None:
    @hw.view("answers", to=request_reply.REPLIES)
    def answers() -> DataFrame:
        return request_reply.requests("questions", schema=SCHEMA)

    for topic in ("questions", "answers"):
        headwater_test.topic(topic)
    frame = events(headwater_test.spark)
    producer = Producer({"bootstrap.servers": headwater_test.bootstrap})
    texts = frame.select("id", F.to_json(F.struct(*NAMES), EXACT).alias("value")).collect()
    for row in texts:
        headers = [(CORRELATION_ID, str(row.id).encode()), (REPLY_TOPIC, b"answers")]
        producer.produce("questions", row.value.encode(), str(row.id), headers=headers)
    assert producer.flush(60) == 0
    headwater_test.run()
    compare(headwater_test, "answers", frame, NAMES)


def test_sketches_know_every_value_that_they_have_seen(headwater_test: Rehearsal) -> None:
    spark = headwater_test.spark
    frame = events(spark)
    plain = [each for each in OPERATED if each.name in ("text", "large")]
    for each in plain:
        there = frame.where(f"`{each.name}` IS NOT NULL")
        row = there.agg(
            p.Distinct.of(each.name).alias("distinct"),
            p.Sets.of(each.name).alias("sets"),
            p.Frequencies.sketch(each.name).alias("counts"),
            F.count_distinct(F.expr(f"nullif(string({each.name}), '')")).alias("exact"),
        ).first()
        assert (row.distinct, row.sets) == (row.exact, row.exact), each
        for value in each.values.to_pylist():
            assert p.Frequencies.count(bytes(row.counts), value) >= 1, (each, value)
    for each in plain:
        members = frame.agg(p.Members.sketch(each.name, items=1000).alias("m")).first().m
        for value in each.values.to_pylist():
            assert p.Members.contains(bytes(members), value), (each, value)
        top = frame.agg(p.Top.of(each.name, 200).alias("top")).first().top
        items = {item["item"] for item in top if item["item"] is not None}
        assert items == set(each.values.to_pylist()), each
    doubles = frame.where("double IS NOT NULL AND NOT isnan(double)")
    found = doubles.agg(p.Percentiles.of("double", [0.0, 1.0]).alias("ends")).first().ends
    assert [json.dumps(each) for each in found] == ["-Infinity", "Infinity"]


def test_aggregates_and_clocks_take_every_value(headwater_test: Rehearsal) -> None:
    frame = events(headwater_test.spark)
    windowed = frame.where("NOT isnan(double) OR double IS NULL").withColumn(
        "window", F.window("at", "1 hour")
    )
    rows = p.aggregate(
        windowed, "k", n=p.count(), texts=p.approx_count_distinct("text"),
        ends=p.approx_percentile("double", [0.0, 1.0]),
    ).withColumn("speed", p.rate("n"))  # fmt: skip
    exactly = windowed.groupBy("k").agg(
        F.count_distinct(F.expr("nullif(text, '')")).alias("texts"),
        F.min("double"),
        F.max("double"),
        F.count("*"),
    )
    found = {row.k: (row.texts, *row.ends, row.speed * 3600) for row in rows.collect()}
    assert found == {row[0]: (*row[1:4], pytest.approx(row[4])) for row in exactly.collect()}
    moved = frame.select(p.corrected_time("moment", "at", "at").alias("moment"), "k")
    assert counted(moved, ["moment"]) == counted(frame, ["moment"])


def test_a_question_that_json_cannot_say_is_refused_in_words(headwater_test: Rehearsal) -> None:
    headwater_test.topic("replies")
    with request_reply.Asker(headwater_test.bootstrap, replies="replies") as asker:
        for value in (float("nan"), float("inf")):
            with pytest.raises(HeadwaterError, match="cannot be written as JSON"):
                asker.ask("questions", "k", {"value": value}, timeout=1)
    with pytest.raises(HeadwaterError, match="cannot be written as JSON"):
        request_reply.ask(
            "questions",
            "k",
            {"v": float("nan")},
            1,
            bootstrap=headwater_test.bootstrap,
            replies="replies",
        )
