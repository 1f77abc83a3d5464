"""The state of a view in memory: what it keeps, what the journal says of it after a crash. No Spark."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headwater.views.tables import journal, state
from headwater.views.tables.journal import FILE, Journal
from headwater.views.tables.plain_values import rows_of, table_of
from headwater.views.tables.store import Difference
from headwater.views.tables.upkeep import Upkeep
from tests.views.tables.histories import Held, Tables, as_changes, keyed, seeded
from tests.views.tables.queries import QUERIES
from tests.views.tables.test_program import planned
from tests.views.tables.trying import BySql

ROWS = pa.table({"id": [1, 2]})


def written(folder: Path, *batches: int) -> Journal:
    made = Journal(folder)
    for batch in batches:
        made.add(batch, {0: ROWS}, Difference(ROWS, ROWS.slice(0, batch % 3)))
    return made


def batches(folder: Path, after: int) -> list[int]:
    return [entry.batch for entry in Journal(folder).after(after)]


def test_entries_come_back_in_order_and_without_those_that_the_state_has(tmp_path: Path):
    written(tmp_path, 4, 5, 6).close()
    assert batches(tmp_path, 3) == [4, 5, 6]
    assert batches(tmp_path, 5) == [6]
    assert batches(tmp_path, 1) == []  # 2 and 3 are missing
    (entry,) = Journal(tmp_path).after(5)
    assert (entry.changes[0], entry.difference.gone.num_rows) == (ROWS, 0)


def test_an_entry_that_is_cut_short_anywhere_was_never_written(tmp_path: Path):
    written(tmp_path, 4).close()
    whole = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).unlink()
    written(tmp_path, 4, 5).close()
    both = (tmp_path / FILE).read_bytes()
    for length in range(len(whole), len(both), 97):
        (tmp_path / FILE).write_bytes(both[:length])
        assert batches(tmp_path, 3) == [4], length
        again = Journal(tmp_path)
        again.after(3)
        again.add(5, {}, Difference(ROWS, ROWS))
        again.close()
        assert batches(tmp_path, 3) == [4, 5]


def test_a_new_file_is_begun_when_the_state_has_all_of_it(tmp_path: Path):
    made = written(tmp_path, 4, 5)
    made.settle()
    made.add(6, {}, Difference(ROWS, ROWS))
    made.close()
    assert batches(tmp_path, 3) == []
    assert batches(tmp_path, 5) == [6]


def test_a_batch_that_is_planned_anew_is_forgotten_and_those_before_it_are_not(tmp_path: Path):
    written(tmp_path, 4, 5).close()
    journal.forget(tmp_path, 5)
    assert batches(tmp_path, 3) == [4]
    journal.forget(tmp_path / "nothing there", 5)


VALUES: dict[pa.DataType, list[Any]] = {
    pa.int64(): [-(2**63), 0, None],
    pa.bool_(): [True, None, False],
    pa.string(): ["", "é\0", None],
    pa.large_string(): ["x", None, ""],
    pa.binary(): [b"", b"\xff", None],
    pa.decimal128(38, 4): [Decimal("1.0000"), None, Decimal("-0.0001")],
    pa.date32(): [date(1, 1, 1), None, date(9999, 12, 31)],
    pa.timestamp("us", "UTC"): [datetime(1, 1, 1), None, datetime(9999, 12, 31)],
    pa.timestamp("us"): [datetime(1970, 1, 1), None, datetime(9999, 12, 31)],
    pa.float64(): [-0.0, math.inf, None],
    pa.float32(): [0.0, None, -1.5],
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_values_of_every_kind_come_out_as_they_went_in(kind: pa.DataType):
    whole = pa.table({"v": pa.array(VALUES[kind], kind)})
    for given in (whole, whole.slice(1), whole.slice(3), pa.concat_tables([whole, whole])):
        assert table_of(rows_of(given), given.schema).equals(given)


def test_zeros_are_told_apart_and_a_number_that_is_none_is_itself():
    rows = rows_of(pa.table({"v": pa.array([0.0, -0.0, math.nan, math.nan])}))
    assert rows[0] != rows[1]
    assert rows[2] == rows[3]


def test_a_state_goes_to_its_file_and_back_into_memory_between_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Large batches need the state's engine; what small ones did before is there, and the other way round."""
    monkeypatch.setattr(state, "JOURNAL_BATCHES", 3)
    name = "left"
    plan, query, tables, view = planned(name), QUERIES[name], Tables(), Held(QUERIES[name].key)
    upkeep, compute = Upkeep(plan, tmp_path), BySql(query, plan)
    ends = []
    for number, batch in enumerate(seeded(5, batches=12)):
        monkeypatch.setattr(state, "SMALL_ROWS", 0 if number % 6 == 5 else 2_000)
        tables.take(batch)
        changes = as_changes(batch, plan.columns, {})
        upkeep.apply(number, lambda changes=changes: changes, compute, view.taking(number))
        assert view.rows == keyed(compute(tables.arrow(plan.tables, plan.columns)), query.key)
        ends.append(number - upkeep.store.batch)
    assert ends == [0, 1, 2, 0, 1, 0, 1, 2, 0, 1, 2, 0]
    upkeep.close()
    again = Upkeep(plan, tmp_path)
    assert (again.batch, again.store.batch) == (11, 11)
    again.close()


@pytest.mark.parametrize("in_memory", [True, False])
def test_what_was_written_of_the_last_batch_in_the_state_is_found_again(
    tmp_path: Path, in_memory: bool
):
    name = "left"
    plan, tables = planned(name), Tables()
    upkeep, compute = Upkeep(plan, tmp_path, in_memory), BySql(QUERIES[name], plan)
    assert upkeep.state.last() is None
    written = []
    for number, batch in enumerate(seeded(5, batches=3)):
        tables.take(batch)
        changes = as_changes(batch, plan.columns, {})
        upkeep.apply(number, lambda changes=changes: changes, compute, written.append)
        found = upkeep.state.last()
        assert found is not None and found.batch == number
        assert found.difference.rows.equals(written[-1].rows)
    upkeep.close()
