"""Which query and batch a write inside foreachBatch is of, as options of headwater's sink.

Asked by who writes to a topic there: the target `topic:` and the dead letters of views. On a session of
this process Spark tells the sink itself. On Spark Connect it does not, so both are named: the query by the
id in its checkpoint, which is what Spark would have told.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError
from headwater.local_path import for_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_METADATA = "metadata"


def options_for(spark: SparkSession, checkpoint: str | None, batch: int) -> dict[str, str]:
    """Nothing where Spark says it itself."""
    if not is_connect(spark):
        return {}
    if checkpoint is None:
        raise HeadwaterError(
            "a batch on Spark Connect is written to a topic, and nobody says where its checkpoint is",
            hint="run it with headwater run",
        )
    return {"txnAppId": _query_id(spark, checkpoint), "txnVersion": str(batch)}


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is on a Spark Connect server."""
    return type(spark).__module__.startswith("pyspark.sql.connect")


def _query_id(spark: SparkSession, checkpoint: str) -> str:
    """Spark has written it there before the first batch: {"id": "4b1c…"}."""
    rows = spark.read.text(for_spark(f"{checkpoint}/{_METADATA}")).collect()
    found: dict[str, str] = json.loads("".join(row[0] for row in rows))
    return found["id"]
