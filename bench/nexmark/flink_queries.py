"""Nexmark's queries in Flink SQL, as they are published, over the same topics. For `flink_peer`.

q6 is not there: Flink's OVER takes no retractions (FLINK-19059). q13 is not there: the local file system is
no lookup source.
"""

from __future__ import annotations

_TIMES = "`dateTime` TIMESTAMP_LTZ(3), WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND"
_TABLES = {
    "person": f"""id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING,
        state STRING, extra STRING, {_TIMES}""",
    "auction": f"""id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT,
        expires TIMESTAMP_LTZ(3), seller BIGINT, category INT, extra STRING, {_TIMES}""",
    "bid": f"""auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
        extra STRING, p_time AS PROCTIME(), {_TIMES}""",
}
SETTINGS = {
    "table.local-time-zone": "UTC",
    "execution.runtime-mode": "STREAMING",
    "execution.checkpointing.interval": "10 s",
    "execution.checkpointing.mode": "EXACTLY_ONCE",
    "state.backend.type": "rocksdb",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
"""Those of the published runs, where they say something."""
_RANKS = {
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}
_BIDS = "count(*) AS total_bids, " + ", ".join(
    f"count(*) FILTER (WHERE {where}) AS {rank}_bids" for rank, where in _RANKS.items()
)
_DIFFERENT = ", ".join(
    f"count(DISTINCT {column}) AS total_{column}s, "
    + ", ".join(
        f"count(DISTINCT {column}) FILTER (WHERE {where}) AS {rank}_{column}s"
        for rank, where in _RANKS.items()
    )
    for column in ("bidder", "auction")
)
_DAY = "DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')"
_HOP = "TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
_COUNTS = f"""SELECT auction, count(*) AS num, window_start, window_end FROM {_HOP}
    GROUP BY auction, window_start, window_end"""
_CHANNEL_ID = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_MADE = """SELECT A.*, B.auction, B.bidder, B.price, B.`dateTime` AS bid_dateTime, B.extra AS bid_extra,
    ROW_NUMBER() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.`dateTime` ASC) AS place
    FROM auction A, bid B WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires"""
QUERIES = {
    "q0": "SELECT auction, bidder, price, `dateTime`, extra FROM bid",
    "q1": "SELECT auction, bidder, 0.908 * price AS price, `dateTime`, extra FROM bid",
    "q2": "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0",
    "q3": """SELECT P.name, P.city, P.state, A.id FROM auction A INNER JOIN person P
        ON A.seller = P.id WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    "q4": """SELECT Q.category, AVG(Q.final) AS final FROM (SELECT MAX(B.price) AS final, A.category
        FROM auction A, bid B WHERE A.id = B.auction AND B.`dateTime` BETWEEN A.`dateTime` AND A.expires
        GROUP BY A.id, A.category) Q GROUP BY Q.category""",
    "q5": f"""SELECT A.auction, A.num FROM ({_COUNTS}) A JOIN (SELECT max(num) AS maxn, window_start,
        window_end FROM ({_COUNTS}) GROUP BY window_start, window_end) M
        ON A.window_start = M.window_start AND A.window_end = M.window_end AND A.num >= M.maxn""",
    "q7": """SELECT B.auction, B.price, B.bidder, B.`dateTime`, B.extra FROM bid B JOIN (
        SELECT MAX(price) AS maxprice, window_end AS endtime FROM
        TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
        GROUP BY window_start, window_end) M ON B.price = M.maxprice
        WHERE B.`dateTime` BETWEEN M.endtime - INTERVAL '10' SECOND AND M.endtime""",
    "q8": """SELECT P.id, P.name, P.starttime FROM (SELECT id, name, window_start AS starttime,
        window_end AS endtime FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
        GROUP BY id, name, window_start, window_end) P JOIN (SELECT seller, window_start AS starttime,
        window_end AS endtime FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
        GROUP BY seller, window_start, window_end) A
        ON P.id = A.seller AND P.starttime = A.starttime AND P.endtime = A.endtime""",
    "q9": f"SELECT id, itemName, auction, bidder, price, bid_dateTime, bid_extra FROM ({_MADE}) "
    "WHERE place <= 1",
    "q10": f"""SELECT auction, bidder, price, CAST(`dateTime` AS STRING) AS `dateTime`, extra, {_DAY} AS dt,
        DATE_FORMAT(`dateTime`, 'HH:mm') AS hm FROM bid""",
    "q11": """SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime FROM
        TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
    "q12": """SELECT bidder, count(*) AS bid_count, window_start AS starttime, window_end AS endtime FROM
        TABLE(TUMBLE(TABLE bid, DESCRIPTOR(p_time), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
    "q14": """SELECT auction, bidder, 0.908 * price AS price,
        CASE WHEN HOUR(`dateTime`) >= 8 AND HOUR(`dateTime`) <= 18 THEN 'dayTime'
        WHEN HOUR(`dateTime`) <= 6 OR HOUR(`dateTime`) >= 20 THEN 'nightTime' ELSE 'otherTime' END
        AS bidTimeType, `dateTime`, extra,
        CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    "q15": f"SELECT {_DAY} AS `day`, {_BIDS}, {_DIFFERENT} FROM bid GROUP BY {_DAY}",
    "q16": f"""SELECT channel, {_DAY} AS `day`, max(DATE_FORMAT(`dateTime`, 'HH:mm')) AS `minute`, {_BIDS},
        {_DIFFERENT} FROM bid GROUP BY channel, {_DAY}""",
    "q17": f"""SELECT auction, {_DAY} AS `day`, {_BIDS}, min(price) AS min_price, max(price) AS max_price,
        avg(price) AS avg_price, sum(price) AS sum_price FROM bid GROUP BY auction, {_DAY}""",
    "q18": """SELECT auction, bidder, price, channel, url, `dateTime`, extra FROM (SELECT *, ROW_NUMBER()
        OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS place FROM bid) WHERE place <= 1""",
    "q19": """SELECT auction, bidder, price, channel, url, `dateTime`, extra, place FROM (SELECT *,
        ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid)
        WHERE place <= 10""",
    "q20": """SELECT auction, bidder, price, channel, url, B.`dateTime`, B.extra, itemName, description,
        initialBid, reserve, A.`dateTime` AS auction_dateTime, expires, seller, category,
        A.extra AS auction_extra FROM bid B INNER JOIN auction A ON B.auction = A.id
        WHERE A.category = 10""",
    "q21": f"""SELECT auction, bidder, price, channel, CASE WHEN lower(channel) = 'apple' THEN '0'
        WHEN lower(channel) = 'google' THEN '1' WHEN lower(channel) = 'facebook' THEN '2'
        WHEN lower(channel) = 'baidu' THEN '3' ELSE {_CHANNEL_ID} END AS channel_id FROM bid
        WHERE {_CHANNEL_ID} IS NOT NULL OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    "q22": """SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3) AS dir1,
        SPLIT_INDEX(url, '/', 4) AS dir2, SPLIT_INDEX(url, '/', 5) AS dir3 FROM bid""",
}


def tables(bootstrap: str) -> list[str]:
    """The three topics; a query over them ends where they end when it begins."""
    options = f"""'connector' = 'kafka', 'properties.bootstrap.servers' = '{bootstrap}',
        'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset',
        'properties.isolation.level' = 'read_committed', 'format' = 'json',
        'json.timestamp-format.standard' = 'ISO-8601'"""
    return [
        f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ('topic' = 'nexmark.{name}', {options})"
        for name, columns in _TABLES.items()
    ]
