"""What Nexmark's queries must give: the published SQL in DuckDB, over the same events in one batch.

Two things are said here that the published SQL leaves open: which of several equal bids comes first (`extra`
ends every order), and that a window counts once it is over, by the watermark of four seconds (`:done`).
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb

from bench.nexmark.events import AUCTION, BID, PERSON, TOPICS
from headwater.client.log import Log

Row = tuple[tuple[str, object], ...]
_COLUMNS = {
    PERSON: {
        "id": "BIGINT",
        "name": "VARCHAR",
        "emailAddress": "VARCHAR",
        "creditCard": "VARCHAR",
        "city": "VARCHAR",
        "state": "VARCHAR",
        "dateTime": "TIMESTAMP",
        "extra": "VARCHAR",
    },
    AUCTION: {
        "id": "BIGINT",
        "itemName": "VARCHAR",
        "description": "VARCHAR",
        "initialBid": "BIGINT",
        "reserve": "BIGINT",
        "dateTime": "TIMESTAMP",
        "expires": "TIMESTAMP",
        "seller": "BIGINT",
        "category": "INTEGER",
        "extra": "VARCHAR",
    },
    BID: {
        "auction": "BIGINT",
        "bidder": "BIGINT",
        "price": "BIGINT",
        "channel": "VARCHAR",
        "url": "VARCHAR",
        "dateTime": "TIMESTAMP",
        "extra": "VARCHAR",
    },
}
_DAY = "strftime(dateTime, '%Y-%m-%d')"
_RANKS = {
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}
_BIDS = ["count(*) AS total_bids"] + [
    f"count(*) FILTER (WHERE {where}) AS {rank}_bids" for rank, where in _RANKS.items()
]
_DIFFERENT = [
    text
    for column in ("bidder", "auction")
    for text in (
        f"count(DISTINCT {column}) AS total_{column}s",
        *(
            f"count(DISTINCT {column}) FILTER (WHERE {where}) AS {rank}_{column}s"
            for rank, where in _RANKS.items()
        ),
    )
]
_MADE = """SELECT A.*, B.auction, B.bidder, B.price, B.dateTime AS bid_dateTime, B.extra AS bid_extra,
    row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime, B.extra DESC) AS place
    FROM auction A JOIN bid B ON A.id = B.auction AND B.dateTime BETWEEN A.dateTime AND A.expires"""
_CHANNEL_ID = "nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')"
_CHANNEL = f"""CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
    WHEN 'baidu' THEN '3' ELSE {_CHANNEL_ID} END"""
SQL = {
    "q0": "SELECT auction, bidder, price, dateTime, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, dateTime, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE auction % 123 = 0",
    "q3": """SELECT P.name, P.city, P.state, A.id FROM auction A JOIN person P ON A.seller = P.id
        WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    "q4": f"""SELECT category, avg(final) AS final FROM
        (SELECT id, category, max(price) AS final FROM ({_MADE}) GROUP BY id, category)
        GROUP BY category""",
    "q5": """WITH spread AS (SELECT auction, unnest([time_bucket(INTERVAL 2 SECONDS, dateTime)
            - to_seconds(2 * back) FOR back IN [0, 1, 2, 3, 4]]) AS start FROM bid),
        counts AS (SELECT auction, start, count(*) AS num FROM spread GROUP BY ALL)
        SELECT start, start + INTERVAL 10 SECONDS AS "end", auction, num FROM counts
        JOIN (SELECT start, max(num) AS maxn FROM counts GROUP BY start) USING (start)
        WHERE num >= maxn AND start + INTERVAL 10 SECONDS <= :done""",
    "q6": f"""SELECT seller, id, avg(price) OVER (PARTITION BY seller ORDER BY bid_dateTime, id
        ROWS BETWEEN 10 PRECEDING AND CURRENT ROW) AS final FROM ({_MADE}) WHERE place = 1""",
    "q7": """WITH highest AS (SELECT time_bucket(INTERVAL 10 SECONDS, dateTime)
            + INTERVAL 10 SECONDS AS "end", max(price) AS maxprice FROM bid GROUP BY ALL)
        SELECT "end", auction, price, bidder, dateTime, extra FROM bid JOIN highest
        ON price = maxprice AND dateTime BETWEEN "end" - INTERVAL 10 SECONDS AND "end"
        WHERE "end" <= :done""",
    "q8": """SELECT DISTINCT P.id, P.name, time_bucket(INTERVAL 10 SECONDS, P.dateTime) AS starttime
        FROM person P JOIN auction A ON P.id = A.seller
        AND time_bucket(INTERVAL 10 SECONDS, P.dateTime) = time_bucket(INTERVAL 10 SECONDS, A.dateTime)""",
    "q9": f"SELECT * EXCLUDE (place) FROM ({_MADE}) WHERE place = 1",
    "q10": f"""SELECT auction, bidder, price, dateTime, extra, {_DAY} AS dt,
        strftime(dateTime, '%H:%M') AS hm FROM bid""",
    "q11": """WITH marked AS (SELECT bidder, dateTime, coalesce(dateTime - lag(dateTime) OVER
            (PARTITION BY bidder ORDER BY dateTime) >= INTERVAL 10 SECONDS, true) AS is_first FROM bid),
        numbered AS (SELECT *, sum(is_first::INT) OVER (PARTITION BY bidder ORDER BY dateTime
            ROWS UNBOUNDED PRECEDING) AS sitting FROM marked)
        SELECT bidder, count(*) AS bid_count, min(dateTime) AS start,
        max(dateTime) + INTERVAL 10 SECONDS AS "end" FROM numbered GROUP BY bidder, sitting
        HAVING "end" <= :done""",
    "q12": "SELECT bidder, count(*) AS bid_count FROM bid GROUP BY bidder",
    "q13": """SELECT auction, bidder, price, dateTime, 'value ' || (auction % 10000) AS value FROM bid""",
    "q14": """SELECT auction, bidder, 0.908 * price AS price,
        CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
        WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END
        AS bidTimeType, dateTime, extra, length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY} AS day, {', '.join(_BIDS + _DIFFERENT)} FROM bid GROUP BY day",
    "q16": f"""SELECT channel, {_DAY} AS day, max(strftime(dateTime, '%H:%M')) AS minute,
        {", ".join(_BIDS + _DIFFERENT)} FROM bid GROUP BY channel, day""",
    "q17": f"""SELECT auction, {_DAY} AS day, {", ".join(_BIDS)}, min(price) AS min_price,
        max(price) AS max_price, avg(price) AS avg_price, sum(price)::BIGINT AS sum_price
        FROM bid GROUP BY auction, day""",
    "q18": """SELECT * EXCLUDE (place) FROM (SELECT *, row_number() OVER
        (PARTITION BY bidder, auction ORDER BY dateTime DESC, extra DESC) AS place FROM bid)
        WHERE place = 1""",
    "q19": """SELECT * FROM (SELECT *, row_number() OVER
        (PARTITION BY auction ORDER BY price DESC, dateTime DESC, extra DESC) AS rank_number FROM bid)
        WHERE rank_number <= 10""",
    "q20": """SELECT auction, bidder, price, channel, url, B.dateTime, B.extra, itemName, description,
        initialBid, reserve, A.dateTime AS auction_dateTime, expires, seller, category,
        A.extra AS auction_extra FROM bid B JOIN auction A ON auction = id WHERE category = 10""",
    "q21": f"""SELECT auction, bidder, price, channel, {_CHANNEL} AS channel_id FROM bid
        WHERE channel_id IS NOT NULL""",
    "q22": """SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1,
        split_part(url, '/', 5) AS dir2, split_part(url, '/', 6) AS dir3 FROM bid""",
}
LATENESS = dt.timedelta(seconds=4)


class Reference:
    """The events that are in the log now, and what each query gives for them."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._database = duckdb.connect()
        for topic in TOPICS:
            lines = folder / f"{topic}.ndjson"
            lines.write_bytes(b"\n".join(_values(bootstrap, topic)) + b"\n")
            columns = ", ".join(f"{name}: '{kind}'" for name, kind in _COLUMNS[topic].items())
            self._database.execute(
                f"CREATE TABLE {topic.partition('.')[2]} AS FROM "
                f"read_json('{lines}', format='newline_delimited', columns={{{columns}}})"
            )

    def rows(self, query: str) -> Counter[Row]:
        """What the query must have given when all is read: of windows, those that are over."""
        return self.all_rows(
            query, self._one("SELECT max(dateTime) AS newest FROM bid")["newest"] - LATENESS
        )

    def all_rows(self, query: str, done: dt.datetime = dt.datetime(9999, 1, 1)) -> Counter[Row]:
        """What it gives in one batch, where no window has to wait."""
        return plain(self._all(SQL[query].replace(":done", f"TIMESTAMP '{done}'")))

    def close(self) -> None:
        self._database.close()

    def _one(self, text: str) -> dict[str, Any]:
        (row,) = self._all(text)
        return row

    def _all(self, text: str) -> list[dict[str, Any]]:
        return self._database.sql(text).to_arrow_table().to_pylist()


def plain(rows: Iterable[Mapping[str, object]]) -> Counter[Row]:
    """Rows, each with how often it is there, whoever they come from."""
    return Counter(
        tuple(sorted((name, _plain(value)) for name, value in row.items())) for row in rows
    )


def reads_of(rows: Iterable[Mapping[str, object]]) -> Counter[Row]:
    """q12's rows without the windows of the clock, which are other ones each time."""
    counts = Counter[object]()
    for row in rows:
        counts[row["bidder"]] += int(str(row["bid_count"]))
    return plain({"bidder": bidder, "bid_count": count} for bidder, count in counts.items())


def difference(found: Counter[Row], expected: Counter[Row]) -> str:
    """In what two results differ, in a line; empty where they do not."""
    missing, too_many = expected - found, found - expected
    if not missing and not too_many:
        return ""
    examples = "; ".join(str(dict(row))[:300] for row in [*list(missing)[:1], *list(too_many)[:1]])
    return f"{missing.total()} rows missing, {too_many.total()} too many, as {examples}"


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return str(value.normalize())
    if isinstance(value, float):
        return float(f"{value:.12g}")
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).timestamp()
    return value


def _values(bootstrap: str, topic: str) -> list[bytes]:
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    with Log(bootstrap) as log:
        places = [(topic, number) for number in range(log.topics()[topic])]
        left = sum(log.ends(places).values())
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nexmark-reference"})
    try:
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in places])
        found: list[bytes] = []
        while len(found) < left:
            for message in consumer.consume(10_000, timeout=30):
                value = message.value()
                assert message.error() is None and value is not None, message.error()
                found.append(value)
        return found
    finally:
        consumer.close()
