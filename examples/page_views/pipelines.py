"""One log of page views, two views of it: every event in the warehouse, and a cube that answers at once.

    headwater topics create page_views
    headwater run examples/page_views/pipelines.py

The warehouse keeps what happened, for questions that nobody has asked yet. The cube keeps, for each hour,
site and page, what is asked all the time: how often, how many people, how slow; in sketches, so that hours
can be put together to days, and pages to sites.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

import headwater as hw
from headwater import processing as p

PAGE_VIEW = "site STRING, page STRING, visitor STRING, load_ms DOUBLE, at TIMESTAMP"


@hw.view("page_views_raw", to="duckdb:data/warehouse.duckdb", kind="append")
def raw() -> DataFrame:
    views = hw.stream("page_views", schema=PAGE_VIEW)
    return views.select("site", "page", "visitor", "load_ms", "at")


@hw.view("page_cube", key=["hour", "site", "page"], to="duckdb:data/cube.duckdb")
def cube() -> DataFrame:
    views = p.event_stream(
        "page_views",
        schema=PAGE_VIEW,
        time="at",
        lateness="15 minutes",
        window=p.tumbling("1 hour"),
        ahead="5 minutes",
    )
    cells = views.groupBy("window", "site", "page").agg(
        F.count(F.lit(1)).alias("views"),
        p.Distinct.sketch("visitor").alias("visitors"),
        p.Percentiles.sketch("load_ms").alias("load_ms"),
    )
    hour = F.col("window.start").alias("hour")
    return cells.select(hour, "site", "page", "views", "visitors", "load_ms")
