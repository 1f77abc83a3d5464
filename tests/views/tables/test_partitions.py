"""A key's changes in several partitions, whose times go backwards: the same live and in a replay."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from headwater.views.tables.decoder import Table
from headwater.views.tables.plan import Plan
from headwater.views.tables.replay import Kept, rows
from headwater.views.tables.upkeep import Upkeep
from tests.conftest import SOAK
from tests.views.tables.histories import Held
from tests.views.tables.queries import Query
from tests.views.tables.test_replaying import RECORD
from tests.views.tables.test_shared_state import ByFrames
from tests.views.tables.test_upkeep import planned
from tests.views.tables.trying import BySql

QUERY = Query(("id",), lambda a, b, c: a.select("id", "n"), "SELECT id, n FROM a")
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Change(NamedTuple):
    key: int
    n: int
    partition: int
    offset: int
    second: int


def history(seed: int, count: int = 60) -> list[Change]:
    chance, offsets = random.Random(seed), [0, 0, 0]
    made = []
    for n in range(count):
        place = chance.randrange(3)
        made.append(Change(chance.randrange(8), n, place, offsets[place], chance.randrange(12)))
        offsets[place] += 1
    return made


def expected(changes: Sequence[Change]) -> dict[int, int]:
    """Of each key the last row of the partition that has said something of it latest."""
    found = {}
    for key in {each.key for each in changes}:
        mine = [each for each in changes if each.key == key]
        _, place = max((each.second, each.partition) for each in mine)
        found[key] = max((each.offset, each.n) for each in mine if each.partition == place)[1]
    return found


@pytest.fixture(scope="module")
def plan(spark: SparkSession) -> Plan:
    return planned(spark, "partitions", QUERY)


def as_table(changes: Sequence[Change], plan: Plan) -> list[pa.Table]:
    marks = [("gone", pa.bool_()), ("emptied", pa.bool_()), ("m0", pa.int64())]
    place = [("p", pa.int32()), ("o", pa.int64()), ("ts", pa.int64())]
    made = [pa.schema([*schema, *marks, *place]) for schema in plan.columns]
    said = [
        {"c0": key, "c2": n, "gone": False, "emptied": False, "p": p, "o": o, "ts": second}
        for key, n, p, o, second in changes
    ]
    return [pa.Table.from_pylist(said, made[0]), *(each.empty_table() for each in made[1:])]


@pytest.mark.parametrize("in_memory", [True, False])
def test_however_changes_come_in_batches_the_same_rows_are_left(
    plan: Plan, tmp_path: Path, in_memory: bool
):
    for seed in range(100 if SOAK else 12):
        changes, chance = history(seed), random.Random(seed)
        upkeep, view = Upkeep(plan, tmp_path / str(seed), in_memory), Held(QUERY.key)
        compute, done, batch = BySql(QUERY, plan), 0, 0
        while done < len(changes):
            end = done + chance.choice([1, 1, 2, 9, 30])
            given = as_table(changes[done:end], plan)
            upkeep.apply(batch, partial(list, given), compute, view.taking(batch))
            done, batch = end, batch + 1
            left = {key: row["n"] for (key,), row in view.rows.items()}
            assert left == expected(changes[:done]), (seed, done)
        upkeep.close()


def test_a_replay_leaves_the_same_rows(spark: SparkSession):
    table = Table("things", StructType.fromDDL("id BIGINT, n INT"), ("id",))
    for seed in range(20 if SOAK else 2):
        changes = history(seed)
        values = [bytearray(json.dumps({"id": e.key, "n": e.n}).encode()) for e in changes]
        times = [BEGIN + timedelta(seconds=each.second) for each in changes]
        records = [
            ("things", None, value, each.partition, each.offset, time)
            for each, value, time in zip(changes, values, times, strict=True)
        ]
        keep = Kept()
        found = rows(spark.createDataFrame(records, RECORD), table, keep).collect()
        keep.forget()
        assert dict(map(tuple, found)) == expected(changes), seed


def test_state_on_shared_storage_leaves_the_same_rows(
    spark: SparkSession, plan: Plan, tmp_path: Path
):
    changes = history(5)
    kept = ByFrames(spark, plan, QUERY, tmp_path)
    for batch, (begin, end) in enumerate(pairwise((0, 1, 25, 26, len(changes)))):
        kept.apply(batch, as_table(changes[begin:end], plan), kept.taking(kept.view, batch))
        left = {key: row["n"] for (key,), row in kept.view.rows.items()}
        assert left == expected(changes[:end]), batch
