"""A state whose tables get columns, with what a crash has left in its journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from headwater.views.tables import new_columns
from headwater.views.tables.state import State
from headwater.views.tables.store import Difference, Store, TableShape, ViewShape

OLD = pa.schema([("c0", pa.int64()), ("c1", pa.string()), ("d0", pa.string())])
NEW = pa.schema([OLD.field(0), OLD.field(1), ("c2", pa.int32()), ("c3", pa.string()), OLD.field(2)])
OLD_VIEW = pa.schema([("id", pa.int64()), ("item", pa.string())])
NEW_VIEW = pa.schema([("id", pa.int64()), ("paid", pa.int32()), ("item", pa.string())])
KEPT = pa.schema([*OLD, ("gone", pa.bool_()), ("p", pa.int32()), ("ts", pa.int64())])


def opened(folder: Path, columns: pa.Schema, view: pa.Schema, query: str) -> State:
    shapes = [TableShape(columns, (0,), "orders")]
    return State(Store(folder, shapes, ViewShape(view, ("id",)), query), in_memory=True)


def entry(id: int, item: str) -> tuple[dict[int, pa.Table], Difference]:
    row = {"c0": id, "c1": item, "d0": item.upper(), "gone": False, "p": 0, "ts": 1}
    rows = pa.Table.from_pylist([{"id": id, "item": item}], OLD_VIEW)
    gone = pa.schema([OLD_VIEW.field("id")]).empty_table()
    return {0: pa.Table.from_pylist([row], KEPT)}, Difference(rows, gone)


def rows(state: State) -> list[tuple[Any, ...]]:
    return state.store.rows("SELECT * FROM t0 ORDER BY c0")


def left_by_a_crash(folder: Path) -> None:
    """Batch 0 is in the file, batch 1 in the journal; nobody knows whether the target has batch 2."""
    state = opened(folder, OLD, OLD_VIEW, "old")
    state.begin(0, *entry(1, "tea"))
    begun = state.begun(0)
    assert begun is not None
    state.redo(begun)
    for batch, item in ((1, "rye"), (2, "milk")):
        state.begin(batch, *entry(batch + 1, item))
        if batch == 1:
            state.finish(1)
    state.let_go()


def test_rows_of_before_have_the_default_whether_the_file_has_them_or_the_journal(tmp_path: Path):
    left_by_a_crash(tmp_path)
    for _ in range(2):  # one that was cut short comes again
        new_columns.widen(tmp_path, [NEW], [{"c2": 7}], "new")
    state = opened(tmp_path, NEW, NEW_VIEW, "new")
    assert state.is_widened
    assert rows(state) == [(1, "tea", 7, None, "TEA", 0, 1), (2, "rye", 7, None, "RYE", 0, 1)]
    begun = state.begun(2)
    assert begun is not None
    assert begun.difference.rows.to_pylist() == [{"id": 3, "paid": None, "item": "milk"}]
    state.redo(begun)
    assert rows(state)[-1] == (3, "milk", 7, None, "MILK", 0, 1)
    assert state.batch == state.store.batch == 2
    assert state.memory_for([]) is None  # the next batch computes the view as a whole
    state.close()


def test_a_state_that_is_not_there_yet_is_made_with_all_columns(tmp_path: Path):
    new_columns.widen(tmp_path, [NEW], [{}], "new")
    assert new_columns.rows(tmp_path, 1) == 0
    state = opened(tmp_path, NEW, NEW_VIEW, "new")
    assert not state.is_widened
    state.close()


def test_defaults_are_texts_numbers_and_truths(tmp_path: Path):
    kinds = [("c1", pa.string()), ("c2", pa.bool_()), ("c3", pa.float64()), ("c4", pa.int64())]
    opened(tmp_path, pa.schema([("c0", pa.int64())]), OLD_VIEW, "old").close()
    defaults = {"c1": "it's", "c2": True, "c3": 1.5, "c4": -(2**63)}
    columns = pa.schema([("c0", pa.int64()), *kinds])
    new_columns.widen(tmp_path, [columns], [defaults], "new")
    state = opened(tmp_path, columns, OLD_VIEW, "new")
    state.store.run("INSERT INTO t0 (c0) VALUES (1)")
    assert rows(state) == [(1, "it's", True, 1.5, -(2**63), None, None)]
    state.close()
