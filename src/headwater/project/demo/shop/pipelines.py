"""The demo's queries, as a user would write them; run by `headwater run`.

Three views of one database: a list and a search index of the orders with their customers, and what each
customer has spent. Each follows both tables row by row, deletes included.
"""

from pyspark.sql import functions as F  # noqa: N812 - as every PySpark program calls it

import headwater as hw


def orders():
    schema = "id LONG, customer_id LONG, item STRING, cents LONG"
    return hw.table("shop.orders", schema=schema, key="id")


def customers():
    table = hw.table("shop.customers", schema="id LONG, name STRING, city STRING", key="id")
    return table.withColumnRenamed("id", "customer_id")


@hw.view("order_list", key="id")
def order_list():
    return orders().join(customers(), "customer_id").select("id", "name", "city", "item", "cents")


@hw.view("order_search", key="id")
def order_search():
    return orders().join(customers(), "customer_id").select("id", "name", "city", "item")


@hw.view("spent", key="customer_id")
def spent():
    return (
        orders()
        .groupBy("customer_id")
        .agg(F.count("*").alias("orders"), F.sum("cents").alias("cents"))
    )
