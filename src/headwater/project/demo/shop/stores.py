"""The rows of a view as the store's own library gives them: nothing of the view's definition is needed.

Called when the demo verifies, and while it waits. So what is compared is what any other reader of the store
would see.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

PATIENCE_S = 30.0
"""DuckDB lets one process at a time open a file: for so long we wait for our turn."""

Rows = list[dict[str, Any]]
T = TypeVar("T")


def attempted(look: Callable[[], T]) -> T | None:
    """None while a store is being made, or its one writer has it open: look again."""
    try:
        return look()
    except Exception:  # each store's library has errors of its own
        return None


def rows(to: str, view: str) -> Rows:
    """All rows that readers of the view see now."""
    scheme, _, rest = to.partition(":")
    return {"sqlite": _sqlite, "duckdb": _duckdb, "search": _search, "redis": _redis}[scheme](
        rest, view
    )


def present(to: str, view: str, numbers: Sequence[int]) -> set[int]:
    """Which of these keys the view has; for the two stores that can serve as a cache."""
    scheme, _, rest = to.partition(":")
    if scheme == "redis":
        return _present_in_redis(rest, view, numbers)
    marks = ",".join("?" * len(numbers))
    with closing(sqlite3.connect(rest, timeout=60)) as db:
        found = db.execute(f"SELECT id FROM {view} WHERE id IN ({marks})", numbers).fetchall()
    return {number for (number,) in found}


def _sqlite(path: str, view: str) -> Rows:
    with closing(sqlite3.connect(path, timeout=60)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(f"SELECT * FROM {view}")]


def _duckdb(path: str, view: str) -> Rows:
    import duckdb

    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with duckdb.connect(path, read_only=True) as db:
                asked = db.execute(f"SELECT * FROM {view}")
                names = [str(column[0]) for column in asked.description]
                return [dict(zip(names, row, strict=True)) for row in asked.fetchall()]
        except duckdb.IOException:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)  # its writer has it for a moment


def _search(path: str, view: str) -> Rows:
    from headwater.views.targets.search.index import SearchIndex

    return list(SearchIndex.current(Path(path)).rows())


def _redis(rest: str, view: str) -> Rows:
    with closing(_client(rest)) as client:
        place = client.get(f"{view}:current")
        keys = set(client.scan_iter(f"{place}*", count=1000)) if place else set()
        with client.pipeline(transaction=False) as pipeline:
            for key in keys:
                pipeline.hgetall(key)
            return [row for row in pipeline.execute() if row]  # the others were deleted meanwhile


def _present_in_redis(rest: str, view: str, numbers: Sequence[int]) -> set[int]:
    with closing(_client(rest)) as client:
        place = client.get(f"{view}:current")
        with client.pipeline(transaction=False) as pipeline:
            for number in numbers:
                pipeline.exists(f"{place}{number}")
            return {n for n, there in zip(numbers, pipeline.execute(), strict=True) if there}


def _client(rest: str) -> Any:
    import redis

    return redis.Redis.from_url(f"redis:{rest}", decode_responses=True)
