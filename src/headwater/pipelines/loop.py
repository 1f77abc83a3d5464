"""The loop of a running application: every query stepped through, until told to stop.

Called by `application`. One thread steps through the queries a few times a second, and once where nothing
happens; Spark works in its own. A query that fails waits for its next try while the others go on.
"""

from __future__ import annotations

import graphlib
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headwater.pipelines.query import ENDED, Query

STEP_S, IDLE_STEP_S = 0.2, 1.0
QUIET_STEPS = 10
"""After so many steps without anything new, the next ones come more slowly."""
DONE, FAILED = 0, 1


def run_always(queries: Sequence[Query], stopped: threading.Event) -> int:
    """Step until told to stop, or until no query is left that could run; then stop them in order."""
    pace = Pace()
    while not stopped.is_set() and any(query.state not in ENDED for query in queries):
        for query in queries:
            if not stopped.is_set():
                query.step()
        stopped.wait(pace.after([(query.state, query.batches) for query in queries]))
    for query in queries:
        query.ask_to_stop()
    for query in queries:
        query.stop()
    return DONE if stopped.is_set() else FAILED


class Pace:
    """How long to wait until the next step."""

    def __init__(self) -> None:
        self._last: object = None
        self._quiet = 0

    def after(self, seen: object) -> float:
        self._quiet = self._quiet + 1 if seen == self._last else 0
        self._last = seen
        return STEP_S if self._quiet < QUIET_STEPS else IDLE_STEP_S


def run_once(queries: Sequence[Query], stopped: threading.Event) -> int:
    """Bring every view up to date, those first that others read from."""
    for group in in_order(queries):
        run_always(group, stopped)
        if stopped.is_set():
            break
    return FAILED if any(query.failed for query in queries) else DONE


def in_order(queries: Sequence[Query]) -> list[list[Query]]:
    """Groups that can run side by side, a group after those whose topics it reads."""
    writers = {topic: query for query in queries if (topic := query.view.topic) is not None}
    needs = {
        query: {writers[topic] for topic in query.reads if topic in writers} - {query}
        for query in queries
    }
    order = graphlib.TopologicalSorter(needs)
    try:
        order.prepare()
    except graphlib.CycleError:
        return [list(queries)]  # each reads what the other writes: no order is better than another
    groups = []
    while order.is_active():
        ready = set(order.get_ready())
        groups.append([query for query in queries if query in ready])
        order.done(*ready)
    return groups


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set, in place of what they do otherwise.

    To be entered after Spark has started: it sets a handler of its own for Ctrl-C, which would
    cancel the batches at hand.
    """
    stopped = threading.Event()

    def stop(*_: Any) -> None:
        stopped.set()

    before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stopped
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
