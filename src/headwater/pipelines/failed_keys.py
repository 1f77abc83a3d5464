"""Keys for which a view's function fails: why, and their dead letters.

`table_views` asks for it when a query is built, `expected_rows` where a view is compared. A letter is the
key, as JSON, with the reason; the view's row for it is gone until a change touches it for which the function
does not fail (`headwater.views.tables.set_aside`, docs/decisions/0027-keys-set-aside.md).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.client.position import Position
from headwater.pipelines import bad_changes
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import FAIL, View
from headwater.pipelines.errors import brief

if TYPE_CHECKING:
    import pyarrow as pa
    from py4j.java_gateway import JavaObject
    from pyspark.sql import SparkSession

    from headwater.views.dead_letters import Letters
    from headwater.views.tables.bad_values import Refuse
    from headwater.views.tables.set_aside import Blame

TURN = -1
"""Of these letters among a batch's (`Letters.put`)."""
_OF_ROWS = frozenset(("21", "22", "23", "2F", "38", "39", "P0"))
"""Classes of SQLSTATE: data, constraints, routines of the user's, errors that the user raises."""
_JAVA = (
    "java.lang.ArithmeticException",
    "java.lang.NumberFormatException",
    "java.time.DateTimeException",
    "java.lang.ArrayIndexOutOfBoundsException",
    "org.apache.spark.api.python.PythonException",
)


@dataclass(frozen=True)
class FailedKeys:
    """Of one view's query."""

    letters: Letters
    checkpoint: str
    blame: Blame

    def put(self, spark: SparkSession, batch: int, keys: pa.Table) -> None:
        from headwater.views import offset_log
        from headwater.views.dead_letters import RefusedRow
        from headwater.views.stage import key_text
        from headwater.views.targets.contract import Applied, Refusal

        names = keys.column_names[:-1]
        refused = [
            RefusedRow(Refusal(row, why), None, key_text(names, row)) for row, why in told(keys)
        ]
        position: Position = offset_log.position_of(self.checkpoint, batch, spark)
        self.letters.put(spark, refused, Applied(batch, -1, position), TURN)


def refusals(view: View, building: Context, context: Context) -> tuple[Refuse, FailedKeys | None]:
    """What becomes of values that cannot be read, and of keys; None: the query stops at the first. `context`
    is that of the query that is built, with a connection of its own."""
    from headwater.views.dead_letters import Letters

    refuse = bad_changes.refusal(context)
    building.dead_letters |= context.dead_letters  # so that they are counted
    if view.on_refused == FAIL or context.checkpoint is None:
        return refuse, None
    options, checkpoint = context.kafka_options(), context.checkpoint
    letters = Letters(view.name, view.dead_letters, options, checkpoint)
    return refuse, FailedKeys(letters, checkpoint, blame())


def told(aside: pa.Table) -> list[tuple[str, str]]:
    """Each key as JSON, and why it is set aside."""
    from headwater.views.targets.json_rows import documents

    keys = aside.drop_columns(aside.column_names[-1:])
    texts = [text for batch in keys.to_batches() for text in documents(batch)]
    return list(zip(texts, aside[aside.num_columns - 1].to_pylist(), strict=True))


def blame() -> Blame:
    """For errors of Spark's and of Arrow's."""
    import pyarrow as pa
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from headwater.views.tables.set_aside import Blame

    return Blame((PySparkException, Py4JError, pa.ArrowInvalid), reason_of)


def reason_of(error: Exception) -> str | None:
    """Why a function failed, if that was for its rows; None if Spark, the log or the machine is to blame."""
    import pyarrow as pa

    if isinstance(error, pa.ArrowInvalid):
        return brief(error)
    return next((brief(error) for each in _causes(error) if _is_of_rows(each)), None)


def _causes(error: Exception) -> Iterator[JavaObject]:
    """Java's, from the outermost one on; PySpark has that of an error it does not know as a cause."""
    known: object = error
    while known is not None:
        java = getattr(known, "java_exception", None) or getattr(known, "_origin", None)
        while java is not None:
            yield java
            java = java.getCause()
        known = getattr(known, "_cause", None)


def _is_of_rows(java: JavaObject) -> bool:
    from py4j.protocol import Py4JError

    if str(java.getClass().getName()) in _JAVA:
        return True
    try:
        return str(java.getSqlState() or "")[:2] in _OF_ROWS
    except Py4JError:  # it is none of Spark's
        return False
