"""A position in the log: its large members apart, found again however far back they lie."""

from __future__ import annotations

import pytest

from headwater.capture import position_records
from headwater.capture.change import Record
from headwater.capture.position_records import PartsMissing, PositionRecords, Stored


def last(name: str, records: list[Record]) -> Stored | None:
    return position_records.last(name, [(key, value) for _, key, value, *_ in records])


TABLES = {f"public.t{n}": "0123456789ab" for n in range(1000)}


def stored(n: int, tables: dict[str, str] = TABLES) -> Stored:
    position = {"lsn": n, "schemas": dict(tables), "names": {"public.t": 1}}
    return {"position": position, "run": "r", "ts_ms": n}


def test_a_change_of_one_row_does_not_write_again_what_there_is_of_a_thousand_tables() -> None:
    records = PositionRecords("positions", "shop")
    whole = records.of(stored(1))
    more = [each for n in range(2, 300) for each in records.of(stored(n))]
    assert len(whole) == 2 and len(more) == 298
    assert max(len(record[2] or b"") for record in more) < 200
    assert last("shop", [*whole, *more]) == stored(299)
    with pytest.raises(PartsMissing):
        last("shop", more)


def test_a_table_more_and_some_hundred_positions_write_it_again() -> None:
    records = PositionRecords("positions", "shop")
    records.of(stored(1))
    grown = {**TABLES, "public.more": "0123456789ab"}
    assert last("shop", records.of(stored(2, grown))) == stored(2, grown)
    found = [each for n in range(1000) for each in records.of(stored(n, grown))]
    assert last("shop", found[-500:]) == stored(999, grown)
    assert last("shop", PositionRecords("positions", "shop").of(stored(3, grown))) == stored(
        3, grown
    )


@pytest.mark.parametrize("position", [None, {}, {"n": 1}, {"names": {"public.t": 1}, "lsn": 2}])
def test_a_small_position_is_one_record(position: dict[str, object] | None) -> None:
    value = {"position": position, "run": "r", "ts_ms": 1}
    records = PositionRecords("positions", "shop").of(value)
    assert [record[1] for record in records] == [b"shop"]
    assert last("shop", [("positions", b"other", b"{}"), *records]) == value
    assert last("shop2", records) is None
