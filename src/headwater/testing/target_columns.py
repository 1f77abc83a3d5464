"""The tests that a target must pass which gets columns later, besides those of `targets`.

class TestMyTarget(TargetConformance, WideningConformance):
    …
"""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from headwater.testing.targets import ADA, BOB, CAT, SCHEMA, Make, Writer, at, gone, rows_of, shape
from headwater.views.targets.contract import Applied, Kind, Misfit, Target

WIDER = pa.schema([*SCHEMA, ("note", pa.string()), ("size", pa.int64())])


def _widened(target: Target) -> None:
    target.widen()
    target.create()


def _able(target: Target) -> Target:
    if not target.can_widen():
        pytest.skip("this target keeps the columns that it has")
    return target


class WideningConformance:
    """Inherit beside `TargetConformance`, which has the fixture `make`."""

    def test_columns_come_to_rows_that_are_there(self, make: Make) -> None:
        target = _able(make(shape()))
        Writer(target).write(0, [ADA, BOB, CAT])
        for _ in range(2):  # the second time there is nothing to do
            make(shape(schema=WIDER)).widen()
        writer = Writer(make(shape(schema=WIDER)))
        assert rows_of(writer.target) == [(*row, None, None) for row in (ADA, BOB, CAT)]
        assert writer.target.applied() == Applied(0, writer.epoch, at(1))
        writer.write(1, [(2, "Bob", 7.5, "tall", 7), (*gone(3)[:3], None, None, True)])
        writer.write(2, [(4, "Dan", 1.0, None, 8)])
        assert rows_of(writer.target) == [
            (*ADA, None, None),
            (2, "Bob", 7.5, "tall", 7),
            (4, "Dan", 1.0, None, 8),
        ]
        with pytest.raises(Misfit):
            make(shape()).create()

    def test_columns_come_to_appended_rows(self, make: Make) -> None:
        target = _able(make(shape(Kind.APPEND)))
        Writer(target).write(0, [ADA, ADA])
        make(shape(Kind.APPEND, schema=WIDER)).widen()
        writer = Writer(make(shape(Kind.APPEND, schema=WIDER)))
        writer.write(1, [(*BOB, "tall", 7)])
        assert rows_of(writer.target) == [(*ADA, None, None), (*ADA, None, None), (*BOB, "tall", 7)]

    def test_columns_come_to_a_history(self, make: Make) -> None:
        target = _able(make(shape(Kind.HISTORY)))
        first, second = (dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2))
        Writer(target).write(0, [(*ADA, False, first)])
        make(shape(Kind.HISTORY, schema=WIDER)).widen()
        writer = Writer(make(shape(Kind.HISTORY, schema=WIDER)))
        writer.write(1, [(*ADA, "tall", None, False, second)])
        assert rows_of(writer.target) == [
            (*ADA, "tall", None, second, None, True),
            (*ADA, None, None, first, second, False),
        ]

    def test_a_version_is_not_narrowed(self, make: Make) -> None:
        target = _able(make(shape()))
        make(shape(schema=WIDER)).widen()  # nothing is there yet
        Writer(target).write(0, [ADA])
        narrow = pa.schema([("id", pa.int64()), ("name", pa.string()), ("note", pa.string())])
        other = pa.schema([("id", pa.int64()), ("name", pa.int64()), ("total", pa.float64())])
        for less in (narrow, other):
            with pytest.raises(Misfit):
                _widened(make(shape(schema=less)))
