"""Reading a view in Redis at one position: some keys in one transaction, or all of it while commits wait.

Redis has no snapshots. Whoever reads a whole view puts a note into the sorted set of those who hold it
still, with the time until which it counts, and renews it as it goes; the script of a commit looks there.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from headwater.views.targets.contract import Unavailable
from headwater.views.targets.redis.forms import Form
from headwater.views.targets.redis.scripts import BOOK

CHUNK = 1000
HOLD_S = 30
"""A reader that stands still for longer is no longer waited for, and told so."""


class Reader:
    """Reads one version of a view."""

    def __init__(self, client: Any, form: Form, place: str, held: str) -> None:
        self._client = client
        self._form = form
        self._place = place
        self._held = held

    def of(self, keys: pa.Table, fields: Sequence[str]) -> tuple[list[str | None], pa.RecordBatch]:
        """Fields of the book and the rows of these keys, of one moment."""
        wanted = self._form.wanted(keys)
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.hmget(BOOK, list(fields))
            for key in wanted:
                self._form.fetch(pipeline, self._place + key)
            book, *found = pipeline.execute()
        rows = self._form.rows(list(zip(wanted, found, strict=True)))
        return book, self._form.only(rows, keys)

    @contextmanager
    def holding(self) -> Iterator[Iterator[pa.RecordBatch]]:
        """All rows; commits wait until the end of the block."""
        token = uuid.uuid4().hex
        self._hold(token)
        try:
            yield self._rows(token)
        finally:
            self._client.zrem(self._held, token)

    def _rows(self, token: str) -> Iterator[pa.RecordBatch]:
        seen = set[str]()
        for names in self.names():
            fresh = [name for name in names if name not in seen]  # a scan may name a key twice
            seen.update(fresh)
            with self._client.pipeline(transaction=False) as pipeline:
                for name in fresh:
                    self._form.fetch(pipeline, name)
                found = pipeline.execute()
            self._hold(token, again=True)
            begin = len(self._place)
            yield self._form.rows([(n[begin:], f) for n, f in zip(fresh, found, strict=True)])

    def names(self) -> Iterator[list[str]]:
        """The keys of this version, some at a time."""
        if not self._place.endswith(":"):  # a stream
            yield [self._place]
            return
        pattern, cursor = f"{_escaped(self._place)}*", 0
        while True:
            cursor, names = self._client.scan(cursor, match=pattern, count=CHUNK)
            yield names
            if cursor == 0:
                return

    def _hold(self, token: str, *, again: bool = False) -> None:
        until = int(self._client.time()[0] + HOLD_S) * 1000
        self._client.zadd(self._held, {token: until}, xx=again)
        if again and self._client.zscore(self._held, token) is None:
            raise Unavailable("the view has moved on while it was read: the reader was too slow")


def _escaped(text: str) -> str:
    """For SCAN, which has wildcards."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", text)
