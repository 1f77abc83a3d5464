"""Few rows of a batch are staged by the driver, many by tasks: either way the view holds the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from headwater.client.position import Position
from headwater.views import applier
from headwater.views.applier import Applying
from headwater.views.targets.contract import Kind, Shape
from headwater.views.targets.registry import target_for

SCHEMA = pa.schema([("city", pa.string()), ("orders", pa.int64())])
COLUMNS = "city STRING, orders LONG, _deleted BOOLEAN, _partition INT, _offset LONG"
BATCHES = [
    [("Oslo", 1, False, 0, 0), ("Bern", 1, False, 1, 0)],
    [("Oslo", 3, False, 0, 2), ("Oslo", 2, False, 0, 1), ("Rome", 5, False, 1, 1)],
    [("Bern", 0, True, 1, 2), (None, 9, False, 0, 3), ("Rome", 6, False, 1, 4)],
    [],
    [("Bern", 7, False, 1, 6), ("Bern", 8, True, 1, 5)],
]


class Said:
    """Dead letters, as they are put away."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def put(self, _: object, found: Any, *__: object) -> None:
        self.reasons += [each.refusal.reason for each in found]


class Watched(Applying):
    """Notes which batches the driver has staged."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.here: list[int] = []

    def _stage_here(self, frame: DataFrame, batch: int) -> Any:
        self.here.append(batch)
        return super()._stage_here(frame, batch)


def followed(spark: SparkSession, folder: Path, kind: Kind) -> tuple[Watched, list[Any], list[str]]:
    key = () if kind is Kind.APPEND else ("city",)
    target = target_for(f"sqlite:{folder / 'views.db'}", Shape("cities", SCHEMA, key, kind=kind))
    said = Said()
    view = Watched(target, str(folder), said)
    for batch, rows in enumerate(BATCHES):
        frame = spark.createDataFrame(rows, COLUMNS).repartition(2)
        view.apply(frame, batch, Position({"orders": {0: 10 * batch + 10}}))
    with target.reading() as (_, batches):
        found = [tuple(row.values()) for each in batches for row in each.to_pylist()]
    return view, sorted(found, key=str), said.reasons


@pytest.mark.parametrize("kind", [Kind.UPSERT, Kind.APPEND])
def test_a_view_is_the_same_whoever_stages_its_rows(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Kind
):
    (tmp_path / "few").mkdir()
    (tmp_path / "many").mkdir()
    few, rows, reasons = followed(spark, tmp_path / "few", kind)
    assert few.here == [1, 2, 3, 4], "all but the first, of which nobody knows how large it is"
    monkeypatch.setattr(applier, "FEW", -1)
    many, expected, expected_reasons = followed(spark, tmp_path / "many", kind)
    assert many.here == []
    assert rows == expected and reasons == expected_reasons
    if kind is Kind.UPSERT:
        assert rows == [("Bern", 7), ("Oslo", 3), ("Rome", 6)] and len(reasons) == 1


def test_many_records_and_what_follows_many_rows_are_for_tasks(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(applier, "FEW", 20)
    target = target_for(f"sqlite:{tmp_path / 'views.db'}", Shape("cities", SCHEMA, ("city",)))
    view = Watched(target, str(tmp_path))
    ends = [10, 20, 50, 60, 70, 80]
    sizes = [5, 5, 5, 30, 5, 5]
    for batch, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        rows = [(f"city {n}", batch, False, 0, n) for n in range(size)]
        view.apply(spark.createDataFrame(rows, COLUMNS), batch, Position({"orders": {0: end}}))
    assert view.here == [1, 3, 5]
