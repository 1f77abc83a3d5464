"""Four views of one history: headwater run examples/accounts/views.py

The list of accounts, the monthly statement, the feed for those who look for fraud and the list of owners are
queries over the same events. Each can be built anew at any time, and a fifth can be added years later: it
starts at the first event.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from bank import accounts
from pyspark.sql import functions as F  # noqa: N812

import headwater as hw
from headwater.events import frames

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TO = os.environ.get("ACCOUNT_VIEWS", "sqlite:account-views.db")
LARGE = 1_000


def happened() -> DataFrame:
    """Every event of every account, in today's shape, with its amount."""
    events = frames.decoded(hw.stream("accounts"), accounts).where("NOT _deleted")
    said = F.from_json("data", "amount LONG, owner STRING")
    return events.select("id", "n", "type", "at", "who", said.amount.alias("amount"))


def signed(type: Column, amount: Column) -> Column:
    return (
        F.when(type.isin("Deposited", "Credited", "TransferCancelled"), amount)
        .when(type.isin("Withdrawn", "TransferStarted"), -amount)
        .otherwise(0)
    )


@hw.view("account_list", key="id", to=TO, mode="update")
def account_list() -> DataFrame:
    change = signed(F.col("type"), F.col("amount"))
    return happened().groupBy("id").agg(F.sum(change).alias("balance"), F.max("n").alias("events"))


@hw.view("monthly_statement", key=["id", "month"], to=TO, mode="update")
def monthly_statement() -> DataFrame:
    change = signed(F.col("type"), F.col("amount"))
    month = F.date_format("at", "yyyy-MM").alias("month")
    return (
        happened()
        .groupBy("id", month)
        .agg(
            F.sum(F.greatest(change, F.lit(0))).alias("money_in"),
            F.sum(F.greatest(-change, F.lit(0))).alias("money_out"),
        )
    )


@hw.view("fraud_feed", to=TO)
def fraud_feed() -> DataFrame:
    large = F.col("type").isin("Withdrawn", "TransferStarted") & (F.col("amount") >= LARGE)
    return happened().where(large).select("id", "n", "amount", "at", "who")


@hw.view("account_owners", key="id", to=TO)
def account_owners() -> DataFrame:
    """Whose account it is. `headwater forget` sends a tombstone, and the row is deleted."""
    events = frames.decoded(hw.stream("accounts"), accounts)
    owner = F.from_json("data", "owner STRING").owner.alias("owner")
    wanted = events.where("_deleted OR type = 'Opened'")
    return wanted.select("id", owner, "_deleted", "_topic", "_partition", "_offset", "_timestamp")
