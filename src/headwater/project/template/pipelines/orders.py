"""Queries over the log: plain PySpark, with names for what comes in and where it goes."""

import headwater as hw


@hw.view("order_list", key="order_id")
def order_list():
    """Every order with the name of its customer; follows both tables, deletes included."""
    orders = hw.table(
        "shop.orders", schema="id LONG, customer_id LONG, item STRING, total DOUBLE", key="id"
    ).withColumnRenamed("id", "order_id")
    customers = hw.table("shop.customers", schema="id LONG, name STRING, city STRING", key="id")
    joined = orders.join(customers, orders.customer_id == customers.id)
    return joined.select("order_id", "name", "city", "item", "total")
