"""Stage: rows of a DataFrame to records of a topic, exactly once. `spark.datasource` calls these two.

columns, settings   what is asked for, checked on the driver
rows                Arrow to record batches (buffers, partitioner, encoder, unsent)
part                a task's rows in one open transaction (task, producer)
decisions           the driver's word that a batch counts; read again after a crash
second_phase        commits what is decided
driver              few rows and their decision as one transaction
open_transactions   ends what attempts that were lost have left open
stream, batch       Spark's two kinds of writers
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
    from pyspark.sql.types import StructType


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceWriter:
    """For `df.write`. Raises BadOption or BadColumns before anything is written."""
    from headwater.client.errors import BadOption
    from headwater.spark.sink import columns, settings
    from headwater.spark.sink.batch import BatchWriter

    if overwrite:
        raise BadOption(
            "A topic cannot be overwritten.", hint='Use mode("append"), or delete the topic first.'
        )
    read = settings.read(options)
    return BatchWriter(read, columns.check(schema, read.topic))


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamWriter:
    """For `df.writeStream`. Raises BadOption or BadColumns before anything is written."""
    from headwater.client.errors import BadOption
    from headwater.spark.sink import columns, settings
    from headwater.spark.sink.stream import StreamWriter

    if overwrite:
        raise BadOption(
            "A topic has no complete mode.",
            hint='Use outputMode("append") or outputMode("update").',
        )
    read = settings.read(options)
    if read.txn is not None or read.at_least_once:
        raise BadOption(
            f"{' and '.join(settings.BATCH_ONLY)} are for df.write.",
            hint="Leave them out: of a stream Spark says itself which query and batch it is.",
        )
    return StreamWriter(read, columns.check(schema, read.topic))
