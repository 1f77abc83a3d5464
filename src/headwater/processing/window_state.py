"""The memory of `aggregate` with `revise`: what was given out for each window, until it is too old.

A stateful processor of Spark, in its Python workers. State is kept for each bucket of keys and end of a
window, so that a batch touches only the windows that it is about. It knows texts and numbers alone: what is
kept of a window is JSON that Spark made and Spark reads.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor

if TYPE_CHECKING:
    import pandas as pd

Given = dict[str, tuple[int, list[str]]]
"""Key → which revision was given out last, and all that it is made of."""


class Fold(StatefulProcessor):
    """Rows of `aggregate` in, each with what was given out before it and what is true now out."""

    OUTPUT = "named STRING, before ARRAY<STRING>, after ARRAY<STRING>, revision INT"

    def __init__(self, keep: int) -> None:
        self._keep = keep
        """How long after its end a window is kept, in microseconds."""

    def init(self, handle: Any) -> None:
        self._windows = handle.getMapState("windows", "end_us BIGINT", "given BINARY")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        import pandas as pd

        frame = pd.concat([each for each in rows if len(each)], ignore_index=True)
        # What closes first was first: a window's result before its corrections.
        frame = frame.sort_values(["closes_us", "named", "kept"], ignore_index=True)
        out: list[tuple[str, list[str], list[str], int]] = []
        for end, part in frame.groupby("ends_us", sort=False):
            given = self._given(int(end))
            out += [
                _folded(given, by, kept)
                for by, kept in zip(part["named"], part["kept"], strict=True)
            ]
            self._windows.updateValue((int(end),), (pickle.dumps(given),))
        self._forget(int(frame["closes_us"].max()) - self._keep)
        yield pd.DataFrame(out, columns=["named", "before", "after", "revision"])

    def _given(self, end: int) -> Given:
        if not self._windows.containsKey((end,)):
            return {}
        found: Given = pickle.loads(self._windows.getValue((end,))[0])
        return found

    def _forget(self, until: int) -> None:
        """Windows that ended then or before: the source lets nothing through to them any more."""
        for (end,) in list(self._windows.keys()):
            if end <= until:
                self._windows.removeKey((end,))

    def close(self) -> None:
        pass


def _folded(given: Given, by: str, kept: str) -> tuple[str, list[str], list[str], int]:
    revision, before = given.get(by, (-1, []))
    after = [*before, kept]
    given[by] = (revision + 1, after)
    return by, before, after, revision + 1
