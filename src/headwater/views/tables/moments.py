"""Functions that read their tables while they run: refused when a view is built.

`collect`, `count`, `isEmpty`, a `pivot` that looks for its values, `rdd`, `localCheckpoint`: each takes rows
of the moment in which the plan is made. That is once, with empty tables, or in each batch with the few rows
that decide over a change; the plan would take them for rows that never change. There are too many ways to
list. So the function is called with tables that cannot be read at all, and must not notice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from headwater.views.tables.analysis import Java, _each, _kind, _table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headwater.views.tables.decoder import Table

_NOWHERE = "headwater-table-that-cannot-be-read"


def takes_rows(
    spark: SparkSession,
    tables: Sequence[Table],
    function: Callable[[SparkSession, Mapping[int, DataFrame]], DataFrame],
) -> bool:
    """Whether a view's function looks at rows of its tables, or takes them out of the plan."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import DataFrame

    session = spark._jsparkSession
    # Spark asks for the file when it plans the first task, and not before.
    rows = spark.sparkContext._jsc.textFile(f"file:///{_NOWHERE}")
    frames = {
        n: DataFrame(session.createDataFrame(rows, session.parseDataType(table.row.json())), spark)
        for n, table in enumerate(tables)
    }
    try:
        found = function(spark, frames)
        for other in _rows_of_no_table(found._jdf.queryExecution().analyzed()):
            other.getNumPartitions()
    except (Py4JError, PySparkException) as error:
        if _NOWHERE in str(error):
            return True
        raise
    return False


def _rows_of_no_table(plan: Java) -> Iterator[Java]:
    """RDDs, which may have been made of a table."""
    if _kind(plan) == "LogicalRDD":
        yield plan.rdd()
    elif _kind(plan) != "SubqueryAlias" or _table(plan) is None:
        for child in _each(plan.children()):
            yield from _rows_of_no_table(child)
