"""One key of a topic at a moment, and every change that led there: `views.folding` with a connection.

    found = state_of(log, "shop.orders", "17", "2026-11-15T15:00")
    found.row, found.changes[-1].changed

A slider needs one question only: ask for now, and take the last change that is not later than its moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.browse.log import Log
from headwater.browse.wire import cluster

if TYPE_CHECKING:
    from headwater.views.folding.state import State


def state_of(
    log: Log,
    topic: str,
    key: str | bytes,
    as_of: str | None = None,
    *,
    everywhere: bool = False,
    tell: Callable[[int, int], None] = lambda looked, total: None,
) -> State:
    """`as_of`: OFFSET, PARTITION:OFFSET or a time; None is now. Reads the key's partition as far as that.

    `tell` hears how many offsets were looked at, and of how many; what it raises ends the search.
    """
    with cluster(log) as connected:
        from headwater.views.folding import state

        return state.state_of(
            connected, topic, key, state.parse_as_of(as_of), everywhere=everywhere, tell=tell
        )
