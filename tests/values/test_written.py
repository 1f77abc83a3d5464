"""Live views into every target that is no store, and into one that is: equal to Spark's batch, row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

import headwater as hw
from headwater import processing as p
from headwater.testing import values
from headwater.testing.rehearsal import Rehearsal
from headwater.views.targets.function import Batch
from tests.values.operated import (
    EVENTS,
    NAMES,
    SCHEMA,
    Rows,
    counted,
    differing,
    events,
    letters,
    seen,
    send,
)

pytestmark = pytest.mark.timeout(900)


def test_live_views_have_the_rows_of_a_batch(headwater_test: Rehearsal, tmp_path: Path) -> None:
    got: list[pa.Table] = []
    places: dict[str, Any] = {
        "filed": f"parquet:{tmp_path / 'filed'}",
        "remembered": "memory:",
        "printed": "console:",
        "called": lambda batch: got.append(_kept(batch)),
        "stored": f"duckdb:{tmp_path / 'stored.duckdb'}",
    }
    for name, to in places.items():
        key = {"key": values.ID} if name in ("called", "stored") else {}
        hw.view(name, to=to, **key)(lambda: hw.stream(EVENTS, schema=SCHEMA).select(*NAMES))
    hw.view("clocked")(
        lambda: p.event_stream(
            EVENTS,
            schema=SCHEMA,
            time=p.corrected("at", sent="at", received="at"),
            lateness="1 minute",
        ).select(*NAMES)
    )
    spark = headwater_test.spark
    frame = events(spark)
    send(headwater_test, frame)
    headwater_test.run("clocked")
    for name in places:
        headwater_test.run(name, to=places[name] if name == "stored" else None)
    wanted = counted(frame, NAMES)
    found = {
        "clocked": seen(headwater_test, "clocked", NAMES),
        "filed": counted(spark.read.parquet(str(tmp_path / "filed")), NAMES),
        "remembered": counted(spark.table("remembered"), NAMES),
        "called": _rows(pa.concat_tables(got).select(NAMES)),
        "stored": _rows(_stored(headwater_test)),
    }
    for name, rows in found.items():
        assert rows == wanted, f"{name}:\n{differing(NAMES, rows, wanted)}"
    assert [letters(headwater_test, name) for name in places] == [[]] * len(places)


def test_a_view_over_a_table_has_the_rows_of_a_batch(
    headwater_test: Rehearsal, tmp_path: Path
) -> None:
    @hw.view("summed", key="k", to=f"duckdb:{tmp_path / 'summed.duckdb'}")
    def summed() -> DataFrame:
        rows = hw.table(EVENTS, schema=SCHEMA, key=values.ID)
        return rows.groupBy("k").agg(*aggregated())

    def aggregated() -> list[Any]:
        from pyspark.sql import functions as F  # noqa: N812

        named = ("double", "decimal_38_18", "day", "moment", "local", "text", "texts", "point")
        return [F.count("*").alias("n"), *(F.max(name).alias(name) for name in named)]

    frame = events(headwater_test.spark)
    send(headwater_test, frame)
    headwater_test.run("summed", to=f"duckdb:{tmp_path / 'summed.duckdb'}")
    oracle = frame.groupBy("k").agg(*aggregated())
    found, wanted = _rows(_stored(headwater_test, "summed")), counted(oracle, oracle.columns)
    assert found == wanted, differing(oracle.columns, found, wanted)


def _kept(batch: Batch) -> pa.Table:
    return batch.arrow


def _rows(table: pa.Table) -> Rows:
    return Rows(zip(*(values.exact(each) for each in table.columns), strict=True))


def _stored(test: Rehearsal, name: str = "stored") -> pa.Table:
    from headwater.pipelines.stores import shape_of, store_of

    shown = test._seen(name)
    target = store_of(shown.view, shape_of(shown.view, shown.frame))
    with target.reading() as (_, batches):
        return pa.Table.from_batches(list(batches)).select(shown.frame.columns)
