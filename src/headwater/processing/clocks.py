"""Devices with wrong clocks: the event's time as it would have been on the server's clock.

Three timestamps are needed: the event by the device's clock, the sending by the device's clock, the receipt
by the server's. As long as the way to the server is short beside the error, the difference of the last two
is how wrong the device's clock is, and

    event = event (device) + (receipt (server) - sending (device))

What is left of the error is the time that the message was under way. The receipt is by itself the record's
timestamp; a topic with `message.timestamp.type=LogAppendTime` has the broker's time there.

`events(…, time=corrected("at", sent="sent_at"))` corrects where events are read, before anything is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column


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


def corrected_micros(event: Any, sent: Any, received: Any) -> Any:
    """The same for Arrow arrays of microseconds, where events are read."""
    import pyarrow.compute as pc

    return pc.coalesce(pc.add(event, pc.subtract(received, sent)), event)


def _column(named: str | Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.col(named) if isinstance(named, str) else named
