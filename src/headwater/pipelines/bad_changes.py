"""Changes whose value cannot be read: taken out of a stream of changes, and put away as dead letters.

`tables` asks for it where a table is read as a stream. Spark itself finds the bad ones; of the others nothing
but nulls goes through Python. A letter is written in the task that meets the value, before any row behind it
is handed on; who writes it looks first whether it is there (`headwater.views.tables.bad_values`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.pipelines.context import Context
from headwater.pipelines.declared import FAIL
from headwater.spark.options import Options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from headwater.views.tables.bad_values import Refuse

GOOD = "_headwater_good"
"""A column that is there only until the bad ones are out; no filter of the user's."""


def refusal(context: Context) -> Refuse:
    """What becomes of a value that cannot be read, in the query that is built."""
    from headwater.views.tables.bad_values import DeadLetterBox, stop

    view = context.view
    if view is not None and view.on_refused == FAIL:
        return stop
    context.dead_letters = True  # so that they are counted
    client = Options(context.kafka_options()).client_settings()
    return DeadLetterBox(None if view is None else view.dead_letters, client)


def without(read: DataFrame, bad: Column, row: StructType, refuse: Refuse) -> DataFrame:
    """The rows of `read` that are not bad; the others go to `refuse`."""
    from pyspark.sql import functions as F  # noqa: N812

    def put_away(topic: Any, partition: Any, offset: Any, value: Any) -> Any:
        import pyarrow.compute as pc

        if value.null_count == len(value):
            return pc.is_null(value)
        from headwater.spark import worker
        from headwater.views.tables.bad_values import BadValue, reason_for

        worker.settle()
        records = zip(
            *(each.to_pylist() for each in (topic, partition, offset, value)), strict=True
        )
        found = [
            BadValue(t, p, o, reason_for(v, row), v.encode())
            for t, p, o, v in records
            if v is not None
        ]
        refuse(found)
        return pc.is_null(value)

    # Not deterministic, as it were: no filter of the user's may come before it, and hide a bad value.
    is_good = _arrow_udf(put_away, 4).asNondeterministic()
    places = (F.col(name) for name in ("_topic", "_partition", "_offset"))
    good = is_good(*(F.when(bad, each) for each in places), F.when(bad, F.col("_value")))
    return read.withColumn(GOOD, good).where(GOOD)


def _arrow_udf(function: Any, arguments: int) -> Any:
    """Spark wants real types as hints, and modules here have them as text."""
    import pyarrow as pa
    from pyspark.sql.pandas import functions

    make: Any = functions.arrow_udf
    names = function.__code__.co_varnames[:arguments]
    function.__annotations__ = {**dict.fromkeys(names, pa.Array), "return": pa.Array}
    return make(function, "boolean")
