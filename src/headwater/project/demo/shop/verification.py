"""Whether every view holds what the database says: first wait until it could, then compare row by row.

Called by `job`. A view is waited for by its position, which names the topics that it reads; what the last
watermark sets free comes one batch later, so the comparison itself has a little patience, too.

Also here: what each view must hold, asked of the shop's own database in SQL: the pipelines have no part
in it.

Called when the demo verifies. Two engines must then have come to the same: the database, from the rows that
it has now, and Spark, from the changes that were captured one by one.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from typing import Any

from headwater.client.librdkafka import KafkaException, TopicPartition
from headwater.client.position import Position
from headwater.project.demo.clients import consumer
from headwater.project.demo.shop import stores
from headwater.project.demo.shop.database import Database
from headwater.project.demo.summary import ViewFound
from headwater.views.operate.wait import View

Ends = Mapping[str, Mapping[int, int]]


def ends_of(bootstrap: str, topics: tuple[str, ...]) -> dict[str, dict[int, int]]:
    """Where those of the topics that are there end now; nothing while the broker is away."""
    with closing(consumer(bootstrap, "shop")) as client:
        try:
            known = client.list_topics(timeout=30).topics
            return {
                topic: {
                    number: client.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[
                        1
                    ]
                    for number in known[topic].partitions
                }
                for topic in topics
                if topic in known
            }
        except KafkaException:
            return {}


def total(ends: Ends) -> int:
    return sum(sum(partitions.values()) for partitions in ends.values())


def has_reached(name: str, to: str, ends: Ends) -> bool:
    """Whether the view has all that its own topics had when `ends` was asked."""
    position = stores.attempted(View(name, to).position)
    if position is None:
        return False
    return position.covers(Position({t: dict(p) for t, p in ends.items() if t in position.offsets}))


def verify(
    database: Database,
    views: Mapping[str, str],
    patience_s: float,
    tell: Callable[[str], None] = lambda _: None,
) -> list[ViewFound]:
    """Compare until all are equal, or until patience ends; what was found last counts."""
    deadline = time.monotonic() + patience_s
    found = [compare(database, name, to) for name, to in views.items()]
    while any(view.different for view in found) and time.monotonic() < deadline:
        late = ", ".join(view.name for view in found if view.different)
        tell(f"{late} not equal yet")
        time.sleep(0.2)
        found = [compare(database, name, to) for name, to in views.items()]
    return found


def compare(database: Database, name: str, to: str) -> ViewFound:
    """The view against the database, now."""
    wanted = expected(database, name)
    held = Counter(as_texts(name, stores.rows(to, name)))
    # A row that is there twice is a difference as well.
    missing, strange = wanted - held.keys(), list((held - Counter(wanted)).elements())
    example = None
    if missing:
        example = f"missing: {min(missing)}"
    elif strange:
        example = f"not in the database: {min(strange)}"
    different = len(missing) + len(strange)
    return ViewFound(name, to.partition(":")[0], held.total(), different, example)


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
