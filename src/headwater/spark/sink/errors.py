"""What a query that writes can be told; the connection's own errors are in `client.errors`."""

from __future__ import annotations

from headwater.client.errors import QueryError, RequestRefused, TransactionLost


class BadColumns(QueryError):
    """The DataFrame's columns are not what a record is made of."""


class BadRow(QueryError):
    """One row cannot become a record: no topic, or a partition that the topic does not have."""


class WriteRefused(RequestRefused):
    """The topic does not take a batch, now or later: too large, or against the topic's settings."""


class BatchTooLong(TransactionLost):
    """The batch outlived its transactions. Done again as it was, it would do so again: it must be smaller."""

    @classmethod
    def after(cls, timeout_ms: int) -> BatchTooLong:
        return cls(
            f"The batch took longer than the {timeout_ms / 1000:g} s that its transactions may "
            "(kafka.transaction.timeout.ms): nothing of it is in the topic.",
            hint="Make batches smaller: maxOffsetsPerTrigger of the source, in a project "
            "batch_records_max of [pipelines]. Or raise kafka.transaction.timeout.ms, and for more than "
            "15 minutes the broker's transaction.max.timeout.ms.",
        )


class BatchRefused(QueryError):
    """What the log says about this query's batches and what Spark asks for cannot both be true."""
