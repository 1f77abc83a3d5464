"""Whether every view holds what the database says: first wait until it could, then compare row by row.

Called by `job`. A view is waited for by its position, which names the topics that it reads; what the last
watermark sets free comes one batch later, so the comparison itself has a little patience, too.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing

from confluent_kafka import KafkaException, TopicPartition

from headwater.project.demo.clients import consumer
from headwater.project.demo.shop import stores
from headwater.project.demo.shop.database import Database
from headwater.project.demo.shop.expected import as_texts, expected
from headwater.project.demo.summary import ViewFound
from headwater.views.position import Position
from headwater.views.waiting import View

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


def has_reached(name: str, to: str, ends: Ends) -> bool:
    """Whether the view has all that its own topics had when `ends` was asked."""
    try:
        position = View(name, to).position()
    except Exception:  # it is being made, or its one writer has it open: look again
        return False
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
