"""Queries that join: q3, q4, q6, q9, q20.

q4 and q6 read what q9 has found as a table: an auction's winning bid changes as better ones come, and an
average over them must take the one before away again.
"""

from __future__ import annotations

from auction_site import auctions, bids, persons
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

import headwater as hw

WINNING = "id BIGINT, seller BIGINT, category INT, price BIGINT, bid_dateTime TIMESTAMP"


@hw.view("nexmark_q3")
def q3() -> DataFrame:
    """Who sells in Oregon, Idaho or California in category 10, and what."""
    sold = auctions().where("category = 10").select("id", "seller")
    people = persons().where("state IN ('OR', 'ID', 'CA')")
    people = people.select(F.col("id").alias("person"), "name", "city", "state")
    return sold.join(people, F.expr("seller = person")).select("name", "city", "state", "id")


@hw.view("nexmark_q9", key="id")
def q9() -> DataFrame:
    """The winning bid of each auction: the highest, and of these the first."""
    offered = bids().selectExpr(
        *("auction", "bidder", "price"), "dateTime AS bid_dateTime", "extra AS bid_extra"
    )
    made = auctions().join(
        offered, F.expr("id = auction AND bid_dateTime BETWEEN dateTime AND expires")
    )
    bid = ["auction", "bidder", "price", "bid_dateTime", "bid_extra"]
    best = F.expr("struct(price, -unix_millis(bid_dateTime), bid_extra)")
    auction = ["id", "itemName", "description", "initialBid", "reserve", "dateTime", "expires"]
    auction += ["seller", "category", "extra"]
    won = made.groupBy(*auction).agg(F.max_by(F.struct(*bid), best).alias("won"))
    return won.select(*auction, "won.*")


@hw.view("nexmark_q4", key="category")
def q4() -> DataFrame:
    """The average of the winning prices in each category."""
    won = hw.table("nexmark_q9", schema=WINNING, key="id")
    return won.groupBy("category").agg(F.avg("price").alias("final"))


@hw.view("nexmark_q6", key=["seller", "id"])
def q6() -> DataFrame:
    """The average price of a seller's last auctions: of each, and the ten before it."""
    won = hw.table("nexmark_q9", schema=WINNING, key="id")
    last = Window.partitionBy("seller").orderBy("bid_dateTime", "id").rowsBetween(-10, 0)
    return won.select("seller", "id", F.avg("price").over(last).alias("final"))


@hw.view("nexmark_q20")
def q20() -> DataFrame:
    """The bids in category 10, with what they are for."""
    sold = (
        auctions()
        .where("category = 10")
        .selectExpr(
            *(
                "id",
                "itemName",
                "description",
                "initialBid",
                "reserve",
                "expires",
                "seller",
                "category",
            ),
            *("dateTime AS auction_dateTime", "extra AS auction_extra"),
        )
    )
    found = bids().join(sold, F.expr("auction = id"))
    return found.select(
        *("auction", "bidder", "price", "channel", "url", "dateTime", "extra", "itemName"),
        *("description", "initialBid", "reserve", "auction_dateTime", "expires", "seller"),
        *("category", "auction_extra"),
    )
