"""Queries that look at one bid at a time: q0, q1, q2, q10, q13, q14, q21, q22."""

from __future__ import annotations

from auction_site import bids
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import headwater as hw

CHANNEL_ID = "nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')"


@hw.view("nexmark_q0")
def q0() -> DataFrame:
    """Pass through: what reading and writing cost."""
    return bids().select("auction", "bidder", "price", "dateTime", "extra")


@hw.view("nexmark_q1")
def q1() -> DataFrame:
    """Prices from dollars to euros."""
    return bids().selectExpr("auction", "bidder", "0.908 * price AS price", "dateTime", "extra")


@hw.view("nexmark_q2")
def q2() -> DataFrame:
    """The bids for some auctions."""
    return bids().where("auction % 123 = 0").select("auction", "price")


@hw.view("nexmark_q10", to="parquet:data/nexmark/q10")
def q10() -> DataFrame:
    """All bids into files, each with its day and minute."""
    return bids().selectExpr(
        *("auction", "bidder", "price", "dateTime", "extra"),
        "date_format(dateTime, 'yyyy-MM-dd') AS dt",
        "date_format(dateTime, 'HH:mm') AS hm",
    )


@hw.view("nexmark_q13")
def q13() -> DataFrame:
    """Each bid with what a table that never changes says of its auction."""
    spark = SparkSession.getActiveSession()
    assert spark is not None
    side_input = spark.range(10_000).select(
        F.col("id").alias("key"), F.concat(F.lit("value "), "id").alias("value")
    )
    found = bids().join(F.broadcast(side_input), F.expr("auction % 10000 = key"))
    return found.select("auction", "bidder", "price", "dateTime", "value")


@hw.view("nexmark_q14")
def q14() -> DataFrame:
    """Some prices in euros, the time of day by name, and how often the letter c comes."""
    return (
        bids()
        .where("0.908 * price > 1000000 AND 0.908 * price < 50000000")
        .selectExpr(
            *("auction", "bidder", "0.908 * price AS price"),
            "CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime' "
            "WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' "
            "ELSE 'otherTime' END AS bidTimeType",
            *("dateTime", "extra"),
            "length(extra) - length(replace(extra, 'c', '')) AS c_counts",
        )
    )


@hw.view("nexmark_q21")
def q21() -> DataFrame:
    """The channel's number: that of a large one, or what the address says."""
    numbers = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    known = " ".join(f"WHEN '{name}' THEN '{number}'" for name, number in numbers.items())
    channel = f"CASE lower(channel) {known} ELSE {CHANNEL_ID} END"
    numbered = bids().selectExpr(
        "auction", "bidder", "price", "channel", f"{channel} AS channel_id"
    )
    return numbered.where("channel_id IS NOT NULL")


@hw.view("nexmark_q22")
def q22() -> DataFrame:
    """The three folders of the address."""
    folders = [f"split(url, '/')[{3 + number}] AS dir{1 + number}" for number in range(3)]
    return bids().selectExpr("auction", "bidder", "price", "channel", *folders)
