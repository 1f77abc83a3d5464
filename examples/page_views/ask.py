"""Questions to both: the cube for what is asked all the time, the warehouse for the rest.

python examples/page_views/ask.py data/cube.duckdb data/warehouse.duckdb
"""

from __future__ import annotations

import sys

import duckdb
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import headwater as hw
from headwater import processing as p


def by_site(cells: DataFrame) -> DataFrame:
    """Of any cells of the cube: sketches of hours and pages put together."""
    merged = cells.groupBy("site").agg(
        F.sum("views").alias("views"),
        p.Distinct.merge("visitors").alias("visitors"),
        p.Percentiles.merge("load_ms").alias("load_ms"),
    )
    return merged.select(
        "site",
        "views",
        p.Distinct.estimate("visitors").alias("visitors"),
        p.Percentiles.at("load_ms", 0.95).alias("slow_ms"),
    )


def came_back(warehouse: str) -> list[tuple[str, int]]:
    """How many visitors read a second page: nobody had thought of that when the cube was made."""
    question = """
        SELECT site, count(*) FROM (
            SELECT site, visitor FROM page_views_raw
            GROUP BY site, visitor HAVING count(DISTINCT page) > 1
        ) GROUP BY site ORDER BY site
    """
    with duckdb.connect(warehouse, read_only=True) as connection:
        return connection.execute(question).fetchall()


def cells_of(spark: SparkSession, cube: str) -> DataFrame:
    with duckdb.connect(cube, read_only=True) as connection:
        table = connection.sql("SELECT * FROM page_cube").to_arrow_table()
    return spark.createDataFrame(table)


if __name__ == "__main__":
    spark = hw.session()
    by_site(cells_of(spark, sys.argv[1])).show()
    print(came_back(sys.argv[2]))
    spark.stop()
