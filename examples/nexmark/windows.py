"""Queries over windows of time: q5, q7, q8, q11, q12."""

from __future__ import annotations

from auction_site import auctions_in, bids, bids_in, persons_in
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import headwater as hw
from headwater import processing as p


@hw.view("nexmark_q5", mode="append")
def q5() -> DataFrame:
    """Hot items: the auctions with the most bids of the last ten seconds, every two."""
    windows = p.hopping("10 seconds", every="2 seconds")
    counts = p.aggregate(bids_in(windows), "auction", num=p.count())
    of_window = counts.groupBy("window").agg(
        F.max("num").alias("most"), F.collect_list(F.struct("auction", "num")).alias("counts")
    )
    hottest = of_window.selectExpr("window", "inline(filter(counts, each -> each.num = most))")
    return hottest.select("window.start", "window.end", "auction", "num")


@hw.view("nexmark_q7", mode="append")
def q7() -> DataFrame:
    """The highest bids of each ten seconds."""
    highest = p.aggregate(bids_in(p.tumbling("10 seconds")), maxprice=p.max("price"))
    found = bids_in(None).join(
        highest,
        F.expr(
            "price = maxprice AND dateTime BETWEEN window.end - INTERVAL 10 SECONDS AND window.end"
        ),
    )
    return found.select("window.end", "auction", "price", "bidder", "dateTime", "extra")


@hw.view("nexmark_q8", mode="append")
def q8() -> DataFrame:
    """Who came, and sold something in the same ten seconds."""
    windows = p.tumbling("10 seconds")
    people = persons_in(windows).dropDuplicates(["id", "name", "window"])
    sellers = auctions_in(windows).dropDuplicates(["seller", "window"])
    people = people.select("id", "name", "window")
    found = people.join(sellers.selectExpr("seller", "window"), "window").where("id = seller")
    return found.select("id", "name", F.col("window.start").alias("starttime"))


@hw.view("nexmark_q11", mode="append")
def q11() -> DataFrame:
    """How many bids a bidder makes in a sitting, which ten seconds without a bid end."""
    sittings = p.aggregate(bids_in(p.session_window("10 seconds")), "bidder", bid_count=p.count())
    return sittings.select("bidder", "bid_count", "window.start", "window.end")


@hw.view("nexmark_q12", key=["bidder", "start"])
def q12() -> DataFrame:
    """How many bids of a bidder are read in each ten seconds, by the clock that does the reading."""
    windows = F.window(F.current_timestamp(), "10 seconds").alias("window")
    counts = bids().groupBy("bidder", windows).agg(F.count("*").alias("bid_count"))
    return counts.select("bidder", "bid_count", "window.start", "window.end")
