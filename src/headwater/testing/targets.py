"""The tests that every target must pass: a class to inherit from, for anybody who writes one.

    from headwater.testing import TargetConformance

    class TestMyTarget(TargetConformance):
        @pytest.fixture
        def make(self, tmp_path):
            return lambda shape: MyTarget(f"mine:{tmp_path}", shape)

`make` gives a target for a shape, all of one test in the same place: a second call stands for another
process. Tests of kinds that the target does not name in `kinds` are left out. No Spark is needed.
"""

from __future__ import annotations

import datetime as dt
import pickle
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from headwater.client.position import Position
from headwater.deprecation import renamed
from headwater.errors import HeadwaterError
from headwater.views.targets.contract import (
    DELETED,
    VALID_FROM,
    Applied,
    Fenced,
    Kind,
    Misfit,
    Part,
    Refusal,
    Shape,
    Target,
)

Make = Callable[[Shape], Target]
Row = tuple[Any, ...]
MOMENT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("total", pa.float64())])
TYPES = pa.schema(
    [
        ("id", pa.string()),
        ("small", pa.int32()),
        ("yes", pa.bool_()),
        ("price", pa.decimal128(20, 4)),
        ("at", MOMENT),
        ("day", pa.date32()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.float64()), ("y", pa.int64())])),
    ]
)


def shape(kind: Kind = Kind.UPSERT, *, version: int = 1, **more: Any) -> Shape:
    """Of a view of customers."""
    key = () if kind is Kind.APPEND else ("id",)
    return Shape(**{"view": "customers", "schema": SCHEMA, "key": key, "kind": kind, **more},
                 version=version)  # fmt: skip


def at(offset: int) -> Position:
    return Position({"customers": {0: offset}})


class Writer:
    """A driver and its tasks in one: writes batches, remembers its epoch."""

    def __init__(self, target: Target) -> None:
        target.create()
        self.target = target
        self.epoch = target.claim()

    def stage(self, batch: int, part: int, rows: Iterable[Row]) -> Part:
        """As a task does it: with a copy of the target that was sent there."""
        copy: Target = pickle.loads(pickle.dumps(self.target))
        return copy.stage(batch, part, self._batches(list(rows)))

    def commit(self, batch: int, parts: Iterable[Part]) -> None:
        self.target.commit(Applied(batch, self.epoch, at(batch + 1)), list(parts))

    def write(self, batch: int, *parts: Iterable[Row]) -> list[Refusal]:
        staged = [self.stage(batch, number, rows) for number, rows in enumerate(parts)]
        self.commit(batch, staged)
        return [refusal for part in staged for refusal in part.refused]

    def _batches(self, rows: list[Row]) -> Iterator[pa.RecordBatch]:
        """In two batches, as a task may get several. Rows may leave out what is not deleted."""
        schema, kind = self.target.shape.schema, self.target.shape.kind
        if kind is not Kind.APPEND:
            schema = schema.append(pa.field(DELETED, pa.bool_()))
        if kind is Kind.HISTORY:
            schema = schema.append(pa.field(VALID_FROM, MOMENT))
        for some in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
            full = [(*row, False) if len(row) == len(schema) - 1 else row for row in some]
            columns = zip(*full, strict=True) if full else [[] for _ in schema]
            arrays = [pa.array(list(c), f.type) for c, f in zip(columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def rows_of(target: Target, keys: pa.Table | None = None) -> list[Row]:
    """What readers of this version see, in order."""
    with target.reading(keys) as (_, batches):
        found = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
    return sorted(found, key=repr)


def gone(key: int) -> Row:
    return (key, None, None, True)


ADA, BOB, CAT = (1, "Ada", 1.5), (2, "Bob", 2.5), (3, None, None)


class TargetConformance:
    """Inherit and give the fixture `make`."""

    @pytest.fixture
    def make(self) -> Make:
        raise NotImplementedError("give a fixture `make` that returns: Shape -> Target")

    @pytest.fixture(autouse=True)
    def _only_what_it_can(self, request: pytest.FixtureRequest, make: Make) -> None:
        wanted = Kind.HISTORY if "history" in request.node.name else Kind.UPSERT
        wanted = Kind.APPEND if "appended" in request.node.name else wanted
        if wanted not in make(shape()).kinds:
            pytest.skip(f"this target has no {wanted.value}")

    # ---- rows ---------------------------------------------------------------------------------------

    def test_rows_are_added_changed_and_deleted_by_key(self, make: Make) -> None:
        writer = Writer(make(shape()))
        assert rows_of(writer.target) == []
        writer.write(0, [ADA, BOB], [CAT])
        assert rows_of(writer.target) == [ADA, BOB, CAT]
        writer.write(1, [(2, "Bea", None)], [gone(1), gone(77), (4, "Dan", -0.5)])
        assert rows_of(make(shape())) == [(2, "Bea", None), CAT, (4, "Dan", -0.5)]
        writer.write(2, [(1, "Ada again", 0.0), gone(4)])
        assert rows_of(make(shape())) == [(1, "Ada again", 0.0), (2, "Bea", None), CAT]

    def test_a_key_may_have_several_columns(self, make: Make) -> None:
        writer = Writer(make(shape(key=("id", "name"))))
        writer.write(0, [(1, "a", 1.0), (1, "b", 2.0), (2, "a", 3.0)])
        writer.write(1, [(1, "a", None, True), (1, "b", 9.0)])
        assert rows_of(writer.target) == [(1, "b", 9.0), (2, "a", 3.0)]

    def test_every_type_comes_back_as_it_was(self, make: Make) -> None:
        target = make(shape(schema=TYPES))
        moment = dt.datetime(2026, 11, 15, 12, 30, 0, 123456, tzinfo=dt.UTC)
        full = (
            'quote\'"\\\n,;\tüß漢', -7, True, Decimal("1234567890123456.7890"), moment,
            dt.date(1969, 7, 20), b"\x00\xff'", ["a", None, 'b"'], {"x": 0.1, "y": 2**53},
        )  # fmt: skip
        empty = ("", None, None, None, None, None, None, None, None)
        Writer(target).write(0, [full, empty])
        with target.reading() as (_, batches):
            table = pa.Table.from_batches(list(batches)).cast(TYPES)
        assert sorted(map(tuple, map(dict.values, table.to_pylist())), key=repr) == sorted(
            [full, empty], key=repr
        )

    def test_rows_are_appended_and_equal_ones_stay_apart(self, make: Make) -> None:
        writer = Writer(make(shape(Kind.APPEND)))
        writer.write(0, [ADA, ADA], [BOB])
        writer.write(1, [ADA])
        assert rows_of(writer.target) == [ADA, ADA, ADA, BOB]

    def test_only_the_rows_of_given_keys_are_read(self, make: Make) -> None:
        writer = Writer(make(shape()))
        writer.write(0, [(n, f"name {n}", None) for n in range(100)])
        keys = pa.table({"id": pa.array([5, 50, 50, 500], pa.int64())})
        assert rows_of(writer.target, keys) == [(5, "name 5", None), (50, "name 50", None)]

    # ---- exactly once -------------------------------------------------------------------------------

    def test_a_position_is_kept_with_the_rows(self, make: Make) -> None:
        assert make(shape()).applied() is None
        writer = Writer(make(shape()))
        assert writer.target.applied() is None
        writer.write(0, [ADA])
        assert make(shape()).applied() == Applied(0, writer.epoch, at(1))
        writer.commit(1, [])  # a batch without rows moves it too
        with make(shape()).reading() as (applied, batches):
            assert applied == Applied(1, writer.epoch, at(2))
            assert sum(batch.num_rows for batch in batches) == 1

    def test_a_batch_that_comes_again_changes_nothing(self, make: Make) -> None:
        writer = Writer(make(shape()))
        writer.write(0, [ADA, BOB])
        writer.write(1, [(1, "Ava", None), gone(2)])
        again = Writer(make(shape()))
        again.write(1, [ADA], [BOB])
        assert rows_of(again.target) == [(1, "Ava", None)]
        assert again.target.applied() == Applied(1, again.epoch, at(2))

    def test_appended_rows_of_a_batch_that_comes_again_are_there_once(self, make: Make) -> None:
        Writer(make(shape(Kind.APPEND))).write(0, [ADA, BOB])
        again = Writer(make(shape(Kind.APPEND)))
        again.write(0, [ADA, BOB])
        again.write(1, [CAT])
        assert rows_of(again.target) == [ADA, BOB, CAT]

    def test_what_is_staged_and_not_committed_is_not_seen_and_not_in_the_way(
        self, make: Make
    ) -> None:
        writer = Writer(make(shape()))
        writer.stage(0, 0, [ADA, BOB])
        assert rows_of(writer.target) == []
        kept = writer.stage(0, 0, [CAT])  # a second attempt at the same part
        writer.stage(0, 1, [ADA])  # of a task that was killed
        writer.commit(0, [kept])
        assert rows_of(writer.target) == [CAT]
        writer.write(1, [BOB])
        assert rows_of(writer.target) == [BOB, CAT]

    def test_a_writer_that_was_replaced_is_fenced(self, make: Make) -> None:
        old = Writer(make(shape()))
        old.write(0, [ADA])
        staged = old.stage(1, 0, [BOB])
        new = Writer(make(shape()))
        assert new.epoch > old.epoch
        with pytest.raises(Fenced):
            old.commit(1, [staged])
        new.write(1, [CAT])
        with pytest.raises(Fenced):
            old.commit(2, [old.stage(2, 0, [BOB])])
        assert rows_of(new.target) == [ADA, CAT]
        assert new.target.applied() == Applied(1, new.epoch, at(2))

    def test_a_correction_counts_only_at_the_position_it_was_made_for(self, make: Make) -> None:
        writer = Writer(make(shape()))
        writer.write(0, [ADA, BOB])
        known = make(shape()).applied()
        assert known is not None
        mender = make(shape())
        fix = [(1, "Ada, mended", None, False), gone(2)]
        part = mender.stage(-1, 0, writer._batches(fix))
        try:
            assert mender.correct(known, [part])
        except HeadwaterError:
            pytest.skip("this target cannot be repaired in place")
        assert rows_of(writer.target) == [(1, "Ada, mended", None)]
        assert writer.target.applied() == known
        late = mender.stage(-1, 0, writer._batches([(9, "late", None, False)]))
        writer.write(1, [CAT])
        assert not mender.correct(known, [late])
        assert rows_of(writer.target) == [(1, "Ada, mended", None), CAT]

    # ---- history ------------------------------------------------------------------------------------

    def test_a_history_keeps_every_version_with_its_times(self, make: Make) -> None:
        def day(n: int) -> dt.datetime:
            return dt.datetime(2026, 1, n, tzinfo=dt.UTC)

        writer = Writer(make(shape(Kind.HISTORY)))
        writer.write(0, [(1, "Ada", 1.0, False, day(1)), (1, "Ada", 2.0, False, day(2)),
                         (2, "Bob", 1.0, False, day(2))])  # fmt: skip
        writer.write(1, [(1, "Ada", 2.0, False, day(3)), (2, None, None, True, day(4))])
        writer.write(2, [(2, None, None, True, day(5)), (2, "Bea", 3.0, False, day(6)),
                         (1, "Eve", 4.0, False, day(1))])  # fmt: skip
        # day:  1       2            4            6
        # 1     Ada 1   Ada 2 ─────────────────────── Eve 4 (said to be since day 1)
        # 2             Bob 1 ──────| deleted     Bea 3
        assert rows_of(make(shape(Kind.HISTORY))) == sorted(
            [
                (1, "Ada", 1.0, day(1), day(2), False),
                (1, "Ada", 2.0, day(2), day(2), False),
                (1, "Eve", 4.0, day(2), None, True),
                (2, "Bob", 1.0, day(2), day(4), False),
                (2, "Bea", 3.0, day(6), None, True),
            ],
            key=repr,
        )

    # ---- versions -----------------------------------------------------------------------------------

    def test_versions_lie_side_by_side_and_are_switched_and_dropped(self, make: Make) -> None:
        one, two = make(shape()), make(shape(version=2))
        assert (one.versions(), one.current(), two.applied()) == ({}, None, None)
        with pytest.raises(Misfit):
            two.switch()
        first = Writer(one)
        first.write(0, [ADA])
        assert one.current() == 1
        second = Writer(two)
        second.write(0, [BOB])
        assert two.versions() == {1: one.applied(), 2: two.applied()}
        assert (rows_of(one), rows_of(two), two.current()) == ([ADA], [BOB], 1)
        with pytest.raises(Misfit):
            one.drop()
        two.switch()
        two.switch()  # a second time changes nothing
        assert (one.current(), rows_of(one), rows_of(two)) == (2, [ADA], [BOB])
        first.write(1, [CAT])
        second.write(1, [CAT])
        assert (rows_of(one), rows_of(two)) == ([ADA, CAT], [BOB, CAT])
        make(shape()).switch()
        assert (two.current(), rows_of(one), rows_of(two)) == (1, [ADA, CAT], [BOB, CAT])
        two.drop()
        assert two.versions() == {1: one.applied()}
        assert rows_of(one) == [ADA, CAT]
        third = Writer(make(shape(version=2)))
        assert (rows_of(third.target), third.target.applied()) == ([], None)

    def test_views_in_one_place_do_not_touch_each_other(self, make: Make) -> None:
        one, other = Writer(make(shape())), Writer(make(shape(view="others")))
        one.write(0, [ADA])
        other.write(0, [BOB])
        other.write(1, [gone(1)])
        assert (rows_of(one.target), rows_of(other.target)) == ([ADA], [BOB])
        assert one.target.applied() == Applied(0, one.epoch, at(1))

    def test_another_shape_is_refused_and_the_same_is_not(self, make: Make) -> None:
        Writer(make(shape())).write(0, [ADA])
        make(shape()).create()
        wider = pa.schema([*SCHEMA, ("more", pa.string())])
        with pytest.raises(Misfit):
            make(shape(schema=wider)).create()
        assert rows_of(make(shape())) == [ADA]


__getattr__ = renamed(__name__, {"Conformance": "TargetConformance"})
