"""Devices with wrong clocks: the event's time as it would have been on the server's clock.

Three timestamps are needed: the event by the device's clock, the sending by the device's clock, the receipt
by the server's. As long as the way to the server is short beside the error, the difference of the last two
is how wrong the device's clock is, and

    event = event (device) + (receipt (server) - sending (device))

What is left of the error is the time that the message was under way. The receipt is by itself the record's
timestamp; a topic with `message.timestamp.type=LogAppendTime` has the broker's time there.

`event_stream(…, time=corrected("at", sent="sent_at"))` corrects where events are read, before any is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PANDAS_YEARS = (1678, 2262)


@dataclass(frozen=True)
class Corrected:
    """Which columns the three timestamps are in; made by `corrected`."""

    event: str
    sent: str
    received: str | None = None
    """None: the record's own timestamp."""


def corrected(event: str, *, sent: str, received: str | None = None) -> Corrected:
    """Let `event` be corrected by `sent` (device) and `received` (server; by itself the record's time).

    An event without `sent` keeps its device's time.
    """
    return Corrected(event, sent, received)


def corrected_time(event: str | Column, sent: str | Column, received: str | Column) -> Column:
    """The same as a column, for DataFrames that come from elsewhere."""
    from pyspark.sql import functions as F  # noqa: N812

    first, second, third = (_column(each) for each in (event, sent, received))
    moved = F.unix_micros(first) + F.unix_micros(third) - F.unix_micros(second)
    return F.coalesce(F.timestamp_micros(moved), first)


def event_micros(events: DataFrame, time: str) -> Column:
    """A column of times as microseconds. Without a zone it is what its clock showed, as if in UTC: also where
    summer time begins and ends.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import TimestampNTZType

    column = F.col("`" + time.replace("`", "``") + "`")
    if isinstance(events.schema[time].dataType, TimestampNTZType):
        start = F.lit("1970-01-01 00:00:00").cast("timestamp_ntz")
        return F.timestamp_diff("MICROSECOND", start, column)
    return F.unix_micros(column)


def mark_of(events: DataFrame, time: str, name: str) -> Column:
    """A column of times, with its watermark, for workers with pandas, whose nanoseconds end in 1677 and 2262.

    What is earlier is as late at the beginning of these; what is later is null, and so never late. The times
    themselves go as microseconds.
    """
    from pyspark.sql import functions as F  # noqa: N812

    column, field = F.col("`" + time.replace("`", "``") + "`"), events.schema[time]
    first, last = (F.lit(f"{year}-01-01").cast(field.dataType) for year in PANDAS_YEARS)
    held = F.when(column < first, first).when(column <= last, column)
    return held.alias(name, metadata=field.metadata)


def corrected_micros(event: Any, sent: Any, received: Any) -> Any:
    """The same for Arrow arrays of microseconds, where events are read."""
    import pyarrow.compute as pc

    return pc.coalesce(pc.add(event, pc.subtract(received, sent)), event)


def _column(named: str | Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(named) if isinstance(named, str) else named
