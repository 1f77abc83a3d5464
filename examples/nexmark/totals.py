"""Queries that count, or rank, all bids so far: q15, q16, q17, q18, q19.

A count of different bidders keeps the set of them, since Spark's streams have no `count(DISTINCT …)`.
"""

from __future__ import annotations

from auction_site import bids
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

import headwater as hw

RANKS = {
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}
DAY = "date_format(dateTime, 'yyyy-MM-dd') AS day"


def _counts(of: str, many: str) -> list[Column]:
    """How many there are, in all and in each rank of prices."""
    total = F.expr(f"size(collect_set({of}))" if of != "*" else "count(*)")
    counts = [total.alias(f"total_{many}")]
    for rank, condition in RANKS.items():
        one = f"if({condition}, {of if of != '*' else 1}, NULL)"
        counted = f"count({one})" if of == "*" else f"size(collect_set({one}))"
        counts.append(F.expr(counted).alias(f"{rank}_{many}"))
    return counts


def _all_counts() -> list[Column]:
    return [*_counts("*", "bids"), *_counts("bidder", "bidders"), *_counts("auction", "auctions")]


@hw.view("nexmark_q15", key="day")
def q15() -> DataFrame:
    """Of each day: bids, bidders and auctions, in all and by rank of the price."""
    return bids().groupBy(F.expr(DAY)).agg(*_all_counts())


@hw.view("nexmark_q16", key=["channel", "day"])
def q16() -> DataFrame:
    """The same of each channel and day, with the last minute of it."""
    minute = F.expr("max(date_format(dateTime, 'HH:mm'))").alias("minute")
    return bids().groupBy("channel", F.expr(DAY)).agg(minute, *_all_counts())


@hw.view("nexmark_q17", key=["auction", "day"])
def q17() -> DataFrame:
    """Of each auction and day: bids by rank, and the lowest, highest, average and total price."""
    prices = [F.expr(f"{word}(price) AS {word}_price") for word in ("min", "max", "avg", "sum")]
    return bids().groupBy("auction", F.expr(DAY)).agg(*_counts("*", "bids"), *prices)


@hw.view("nexmark_q18", key=["bidder", "auction"])
def q18() -> DataFrame:
    """The last bid of each bidder for each auction."""
    bid = F.struct("price", "channel", "url", "dateTime", "extra")
    last = F.max_by(bid, F.struct("dateTime", "extra")).alias("last")
    return bids().groupBy("bidder", "auction").agg(last).select("auction", "bidder", "last.*")


@hw.view("nexmark_q19", key=["auction", "rank_number"])
def q19() -> DataFrame:
    """The ten highest bids for each auction."""
    bid = F.struct("bidder", "price", "channel", "url", "dateTime", "extra")
    highest = F.max_by(bid, F.struct("price", "dateTime", "extra"), 10).alias("highest")
    ranked = bids().groupBy("auction").agg(highest)
    ranked = ranked.select("auction", F.posexplode("highest").alias("place", "bid"))
    return ranked.select("auction", "bid.*", F.expr("place + 1 AS rank_number"))
