"""What a query that writes can be told; the connection's own errors are in `spark.errors`."""

from __future__ import annotations

from headwater.spark.errors import SparkError


class BadColumns(SparkError):
    """The DataFrame's columns are not what a record is made of."""


class BadRow(SparkError):
    """One row cannot become a record: no topic, or a partition that the topic does not have."""


class PartLost(SparkError):
    """A task's transaction is over before its time: the task, or the batch, must be done again."""


class BatchRefused(SparkError):
    """What the log says about this query's batches and what Spark asks for cannot both be true."""
