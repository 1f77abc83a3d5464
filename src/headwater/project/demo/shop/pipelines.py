"""The demo's queries, as a user would write them; run by `headwater up` in the demo's project.

Two follow the tables of the shop row by row, deletes included: a list of orders with their customers in a
cache, and a search index of them. Two are windows over facts that only ever come: the sessions of visitors,
and the revenue of each minute, with Spark's own windows and watermarks.
"""

from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

import headwater as hw


def orders():
    schema = "id LONG, customer_id LONG, item STRING, cents LONG"
    return hw.table("shop.orders", schema=schema, key="id")


def customers():
    table = hw.table("shop.customers", schema="id LONG, name STRING, city STRING", key="id")
    return table.withColumnRenamed("id", "customer_id")


def facts(topic, columns):
    """A captured table that only grows, as a stream of its rows; `time` is when it was so."""
    rows = hw.stream(topic, schema=f"after STRUCT<{columns}>").select("after.*")
    return rows.withColumn("time", F.timestamp_millis("at")).withWatermark("time", "10 seconds")


@hw.view("order_list", key="id")
def order_list():
    return orders().join(customers(), "customer_id").select("id", "name", "city", "item", "cents")


@hw.view("order_search", key="id")
def order_search():
    return orders().join(customers(), "customer_id").select("id", "name", "city", "item")


@hw.view("sessions", key=["customer_id", "started"], mode="append")
def sessions():
    visits = facts("shop.visits", "id LONG, customer_id LONG, page STRING, at LONG")
    session = F.session_window("time", "5 seconds").alias("session")
    return (
        visits.groupBy("customer_id", session)
        .agg(F.count("*").alias("visits"))
        .select(
            "customer_id",
            F.unix_millis("session.start").alias("started"),
            F.unix_millis("session.end").alias("ended"),
            "visits",
        )
    )


@hw.view("revenue_per_minute", key="minute")
def revenue_per_minute():
    payments = facts("shop.payments", "id LONG, order_id LONG, cents LONG, at LONG")
    return (
        payments.groupBy(F.window("time", "1 minute").alias("window"))
        .agg(F.count("*").alias("payments"), F.sum("cents").alias("cents"))
        .select(F.unix_millis("window.start").alias("minute"), "payments", "cents")
    )
