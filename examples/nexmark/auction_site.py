"""What Nexmark's queries read: persons, auctions and bids of an auction site, as streams of events.

`python -m bench.nexmark.generate` writes the topics. The queries are q0.sql … q22.sql of nexmark/nexmark, in
PySpark; as there, events may be four seconds late.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

import headwater as hw
from headwater import processing as p

PERSON = (
    "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "dateTime TIMESTAMP, extra STRING"
)
AUCTION = (
    "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, "
    "dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category INT, extra STRING"
)
BID = (
    "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, dateTime TIMESTAMP, "
    "extra STRING"
)
LATENESS = "4 seconds"


def persons() -> DataFrame:
    return hw.stream("nexmark.person", schema=PERSON)


def auctions() -> DataFrame:
    return hw.stream("nexmark.auction", schema=AUCTION)


def bids() -> DataFrame:
    return hw.stream("nexmark.bid", schema=BID)


def persons_in(window: p.Window) -> DataFrame:
    return p.event_stream(
        "nexmark.person", schema=PERSON, time="dateTime", lateness=LATENESS, window=window
    )


def auctions_in(window: p.Window) -> DataFrame:
    return p.event_stream(
        "nexmark.auction", schema=AUCTION, time="dateTime", lateness=LATENESS, window=window
    )


def bids_in(window: p.Window | None) -> DataFrame:
    return p.event_stream(
        "nexmark.bid", schema=BID, time="dateTime", lateness=LATENESS, window=window
    )
