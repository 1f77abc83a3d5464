"""A kept plan that the driver runs by itself gives what a job of Spark's gives, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import NumberFormatException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from headwater.spark import driver_task
from headwater.views.tables.frames import Tuning
from headwater.views.tables.kept_plan import KeptPlan

ORDERS = "id LONG, customer LONG, cents LONG, note STRING, at TIMESTAMP"
CUSTOMERS = "customer LONG, name STRING"


@pytest.fixture
def own(spark: SparkSession) -> SparkSession:
    made = spark.newSession()
    Tuning(made).choose(True)
    return made


def kept(own: SparkSession, function: Any) -> KeptPlan:
    of = [StructType.fromDDL(each) for each in (ORDERS, CUSTOMERS)]
    return KeptPlan(own, of, lambda _, tables: function(*tables.values()))


def rows(ids: range) -> dict[int, pa.Table]:
    count = len(ids)
    at = pa.array([n * 3_600_000_000 for n in ids], pa.timestamp("us", "UTC"))
    orders = [list(ids), [n % 3 for n in ids], [n * 7 for n in ids], [str(n) for n in ids], at]
    return {
        0: pa.table(orders, ["id", "customer", "cents", "note", "at"]),
        1: pa.table({"customer": range(min(3, count)), "name": ["a", "b", "c"][:count]}),
    }


def joined_and_summed(orders: Any, customers: Any) -> Any:
    both = orders.join(customers, "customer").groupBy("name")
    found = both.agg(F.sum("cents"), F.count("*"), F.collect_set("note"), F.max(F.hour("at")))
    return found.orderBy("name")


def by_job(plan: KeptPlan, given: dict[int, pa.Table]) -> pa.Table | None:
    plan._task = None
    return plan.run(given)


def test_it_gives_what_a_job_gives_and_is_none(own: SparkSession):
    own.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    task, job = (kept(own, joined_and_summed) for _ in range(2))
    expected = [by_job(job, rows(range(n))) for n in (1, 60, 0, 4)]
    context = own.sparkContext
    context.setJobGroup("kept", "")
    found = [task.run(rows(range(n))) for n in (1, 60, 0, 4)]
    assert found == expected
    assert not context.statusTracker().getJobIdsForGroup("kept")


def test_all_partitions_are_there_in_their_order(own: SparkSession):
    function = lambda orders, _: orders.where("id < 3").union(orders.where("id > 5"))  # noqa: E731
    found = kept(own, function).run(rows(range(9)))
    assert found is not None and found["id"].to_pylist() == [0, 1, 2, 6, 7, 8]


def test_more_rows_than_it_may_hand_over_are_computed_by_a_job(
    own: SparkSession, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(driver_task, "RESULT_BYTES", 10_000)
    plan = kept(own, joined_and_summed)
    few, many = plan.run(rows(range(3))), plan.run(rows(range(3_000)))
    assert few is not None and many is not None
    assert [each["count(1)"].to_pylist() for each in (few, many)] == [[1] * 3, [1_000] * 3]


def test_a_mistake_is_told_as_spark_tells_it_and_the_next_batch_is_right(own: SparkSession):
    plan = kept(own, lambda orders, _: orders.select(F.expr("CAST(note AS INT)").alias("n")))
    wrong = rows(range(2))
    wrong[0] = wrong[0].set_column(3, "note", pa.array(["1", "one"]))
    with pytest.raises(NumberFormatException, match="one"):
        plan.run(wrong)
    found = plan.run(rows(range(2)))
    assert found is not None and found["n"].to_pylist() == [0, 1]
    assert own.sparkContext._jvm.org.apache.spark.TaskContext.get() is None  # type: ignore[union-attr]
