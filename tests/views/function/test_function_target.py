"""A Python function as target: what it gets, and what it can rely on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.testing.targets import ADA, BOB, Writer, at, gone, shape
from headwater.views.targets.contract import Applied, Fenced, Kind
from headwater.views.targets.function import Batch, FunctionTarget


class Effects:
    """A function that remembers, and fails when told to."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, list[Any]]] = []
        self.fails = False

    def __call__(self, batch: Batch) -> None:
        self.seen.append((batch.id, [tuple(row.values()) for row in batch.rows()]))
        if self.fails:
            raise ValueError("not now")


def test_it_gets_each_batch_with_its_id_rows_and_position_and_none_that_it_has_had(tmp_path: Path):
    effects = Effects()

    def make(kind: Kind = Kind.UPSERT) -> FunctionTarget:
        return FunctionTarget(effects, tmp_path, "function:effects", shape(kind))

    writer = Writer(make())
    writer.write(0, [ADA], [BOB])
    writer.commit(1, [])  # without rows it is not called
    writer.write(2, [gone(1)])
    first, second = [(*ADA, False), (*BOB, False)], [gone(1)]
    assert effects.seen == [(0, first), (2, second)]
    assert make().applied() == Applied(2, writer.epoch, at(3))
    again = Writer(make())
    again.write(2, [gone(1)])
    assert len(effects.seen) == 2
    with pytest.raises(Fenced):
        writer.write(3, [ADA])
    effects.fails = True
    with pytest.raises(ValueError, match="not now"):
        again.write(3, [BOB])
    effects.fails = False
    last = Writer(make())  # after a failure or a crash the same batch comes again
    last.write(3, [BOB])
    assert [number for number, _ in effects.seen] == [0, 2, 3, 3]


def test_a_batch_is_arrow_pandas_and_rows():
    import pyarrow as pa

    batch = Batch(7, at(1), pa.table({"a": [1, 2]}))
    assert batch.pandas()["a"].sum() == 3
    assert batch.rows() == [{"a": 1}, {"a": 2}]
