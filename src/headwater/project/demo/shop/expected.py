"""What each view must hold, asked of the shop's own database in SQL: the pipelines have no part in it.

Called when the demo verifies. Two engines must then have come to the same: the database, from the rows that
it has now, and Spark, from the changes that were captured one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headwater.project.demo.shop.database import Database

SESSION_GAP_MS = 5_000
BELL = 0
"""Who visits when the shop closes. That moves the watermark past all that was before, so that every
session is final; the bell's own is not."""

_ORDERS = "FROM orders o JOIN customers c ON c.id = o.customer_id"

QUERIES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "order_list": (
        ("id", "name", "city", "item", "cents"),
        f"SELECT o.id, c.name, c.city, o.item, o.cents {_ORDERS}",
    ),
    "order_search": (
        ("id", "name", "city", "item"),
        f"SELECT o.id, c.name, c.city, o.item {_ORDERS}",
    ),
    "revenue_per_minute": (
        ("minute", "payments", "cents"),
        "SELECT at / 60000 * 60000, count(*), sum(cents) FROM payments GROUP BY at / 60000",
    ),
    # A session begins with a visit whose customer was not there in the five seconds before it.
    "sessions": (
        ("customer_id", "started", "ended", "visits"),
        f"""
        WITH begun AS (
            SELECT id, customer_id, at, CASE WHEN at - lag(at) OVER (
                PARTITION BY customer_id ORDER BY at, id) <= {SESSION_GAP_MS} THEN 0 ELSE 1 END AS is_first
            FROM visits WHERE customer_id <> {BELL}
        ), numbered AS (
            SELECT customer_id, at, sum(is_first) OVER (
                PARTITION BY customer_id ORDER BY at, id) AS nth FROM begun
        )
        SELECT customer_id, min(at), max(at) + {SESSION_GAP_MS}, count(*)
        FROM numbered GROUP BY customer_id, nth
        """,
    ),
}
"""View → its columns, and the question."""


def expected(database: Database, view: str) -> set[tuple[str, ...]]:
    """The rows of a view, each value as text: stores differ in how they keep a number."""
    _, sql = QUERIES[view]
    return {tuple(map(str, row)) for row in database.rows(sql)}


def as_texts(view: str, rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Rows of a store, in the form of `expected`."""
    columns, _ = QUERIES[view]
    return [tuple(str(row.get(name)) for name in columns) for row in rows]
