"""Times beyond the year 9999, both zeros and every NaN as keys: kept right, or refused in words."""

from __future__ import annotations

import math
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.testing.targets import MOMENT, Writer, rows_of, shape
from headwater.views.stage import deletes, with_keys
from headwater.views.targets.contract import Kind, Refusal, Target
from headwater.views.targets.float_keys import one_zero
from headwater.views.targets.registry import target_for
from headwater.views.targets.years import far_times
from tests.views.core.batching import followed

NTZ = pa.timestamp("us")
TIMES = pa.schema(
    [
        ("id", pa.int64()),
        ("at", MOMENT),
        ("plain", NTZ),
        ("day", pa.date32()),
        ("deep", pa.struct([("at", pa.list_(MOMENT))])),
    ]
)
LAST, FIRST = 253_402_300_799_999_999, -62_135_596_800_000_000
"""Microseconds: the last of 9999, the first of the year 1."""
DAYS = (2_932_896, -719_162)


def _rows(values: list[tuple[int, int, int, int]]) -> pa.RecordBatch:
    """Each: one column or another with a time, as numbers."""
    ids = pa.array(range(len(values)), pa.int64())
    at, plain = (pa.array([v[n] for v in values], pa.int64()) for n in (0, 1))
    day = pa.array([v[2] for v in values], pa.int32()).cast(pa.date32())
    inner = pa.ListArray.from_arrays(
        pa.array(range(len(values) + 1), pa.int32()),
        pa.array([v[3] for v in values], pa.int64()).cast(MOMENT),
    )
    deep = pa.StructArray.from_arrays([inner], fields=list(TIMES.field("deep").type))
    columns = [ids, at.cast(MOMENT), plain.cast(NTZ), day, deep]
    return pa.RecordBatch.from_arrays(columns, schema=TIMES)


GOOD = [(LAST, LAST, DAYS[0], LAST), (FIRST, FIRST, DAYS[1], FIRST), (0, 0, 0, 0)]
BAD = [
    (LAST + 1, 0, 0, 0), (0, LAST + 1, 0, 0), (0, 0, DAYS[0] + 1, 0), (0, 0, 0, LAST + 1),
    (FIRST - 1, 0, 0, 0), (0, FIRST - 1, 0, 0), (0, 0, DAYS[1] - 1, 0), (0, 0, 0, FIRST - 1),
]  # fmt: skip


def test_times_that_texts_cannot_hold_are_found_in_every_column():
    assert list(far_times(_rows(GOOD), TIMES.names)) == []
    found = list(far_times(_rows([*GOOD, *BAD]), TIMES.names))
    assert sorted(number for number, _ in found) == list(range(3, 11))
    assert {reason for _, reason in found} == {
        f"{name} is not between the years 1 and 9999" for name in ("at", "plain", "day", "deep")
    }


def staged(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.append_column("_deleted", pa.array([False] * rows.num_rows))


@pytest.mark.parametrize("scheme", ["sqlite", "delta"])
def test_other_stores_refuse_such_a_row_in_words_and_keep_the_rest(scheme: str, tmp_path: Path):
    target = target_for(f"{scheme}:{tmp_path}/x.db", shape(schema=TIMES))
    writer = Writer(target)
    part = target.stage(0, 0, iter([staged(_rows([*GOOD, *BAD]))]))
    assert len(part.refused) == len(BAD)
    said = "\n".join(each.row for each in part.refused)
    assert '"at":"10000-01-01T00:00:00.000000Z"' in said
    assert '"deep":{"at":["10000-01-01T00:00:00.000000Z"]}' in said
    writer.commit(0, [part])
    assert len(rows_of(target)) == len(GOOD)


def test_a_store_that_takes_arrow_keeps_such_times_as_they_are(tmp_path: Path):
    target = target_for(f"duckdb:{tmp_path}/x", shape(schema=TIMES))
    writer = Writer(target)
    given = _rows([*GOOD, *BAD])
    part = target.stage(0, 0, iter([staged(given)]))
    assert part.refused == ()
    writer.commit(0, [part])
    with target.reading() as (_, batches):
        found = pa.Table.from_batches(list(batches)).cast(TIMES).sort_by("id")
    assert found.combine_chunks().equals(pa.Table.from_batches([given]))


def test_both_zeros_are_one_key_and_every_nan():
    given = pa.array([0.0, -0.0, None, math.nan, -math.nan, 1.5])
    found = one_zero(given).to_pylist()
    assert [math.copysign(1, each) for each in found[:2]] == [1, 1]
    assert found[2] is None and math.isnan(found[3]) and math.isnan(found[4])
    fit = shape(schema=pa.schema([("id", pa.float32())]))
    rows = pa.record_batch({"id": pa.array([-0.0], pa.float32())})
    assert math.copysign(1, with_keys(fit, rows, 0, []).column("id")[0].as_py()) == 1


FLOATS = pa.schema([("id", pa.float64()), ("name", pa.string()), ("total", pa.float64())])


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb", "delta", "search"])
def test_the_later_of_two_zeros_wins_and_there_is_one_row(scheme: str, tmp_path: Path):
    #  batch 0: 0.0 = first, -0.0 = second     batch 1: -0.0 = third     batch 2: 0.0 is deleted
    changes = [
        [(0.0, "first", 1.0, False), (-0.0, "second", 1.0, False)],
        [(-0.0, "third", 1.0, False)],
        [(0.0, None, None, True)],
    ]
    for count, rows in ((1, "second"), (2, "third")):
        target = target_for(f"{scheme}:{tmp_path}/x{count}", shape(schema=FLOATS))
        (found,) = followed(target, changes[:count]).rows
        assert rows in found and "-0.0" not in found
        keys = pa.table({"id": pa.array([-0.0])})
        assert len(rows_of(target, keys)) == 1
    target = target_for(f"{scheme}:{tmp_path}/x", shape(schema=FLOATS))
    assert followed(target, changes).rows == []


def test_refused_states_become_deletes_of_their_keys():
    fit = shape(Kind.UPSERT, schema=FLOATS)
    refused = [
        Refusal('{"id":1.5,"name":"x","total":"nan"}', "total is NaN"),
        Refusal('{"id":1.5,"name":"y","total":"nan"}', "total is NaN"),
        Refusal('{"id":null,"name":"y","total":1.0}', "its key id is null"),
    ]
    found = deletes(fit, refused)
    assert found is not None
    assert found.to_pylist() == [{"id": 1.5, "name": None, "total": None, "_deleted": True}]
    assert deletes(fit, refused[2:]) is None


def test_a_refused_state_takes_its_keys_row_away(tmp_path: Path):
    """Of a result that is computed, nobody knows what it was between two batches."""
    from headwater.client.position import Position
    from headwater.views.applier import Applying

    class Kept:
        def __init__(self) -> None:
            self.reasons: list[str] = []

        def put(self, spark: object, refused: list[tuple[Refusal, object]], *_: object) -> None:
            self.reasons += [each[0].reason for each in refused]

    def after(
        name: str, *batches: list[tuple[float, str, float, bool]]
    ) -> list[tuple[object, ...]]:
        target: Target = target_for(f"sqlite:{tmp_path}/{name}.db", shape(schema=FLOATS))
        letters = Kept()
        applying = Applying(target, "memory://", letters, states=True)  # type: ignore[arg-type]
        schema = FLOATS.append(pa.field("_deleted", pa.bool_()))
        for number, rows in enumerate(batches):
            columns = [
                pa.array(list(c), f.type)
                for c, f in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            table = pa.table(columns, schema=schema)
            applying.apply_rows(table, number, Position({"t": {0: number}}), None)  # type: ignore[arg-type]
        assert letters.reasons == ["total is NaN, which SQLite does not have"]
        return rows_of(target)

    good, bad = (1.0, "a", 1.0, False), (1.0, "a", math.nan, False)
    assert after("apart", [good], [bad]) == after("together", [bad]) == []
