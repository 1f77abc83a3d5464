"""Where a share group begins that reads a partition for the first time (`share.auto.offset.reset`)."""

from __future__ import annotations

import re

from headwater.log.partition import PartitionLog

_DURATION = re.compile(
    r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII | re.IGNORECASE
)
_EVER_MS = 2.0**62
"""More than any log goes back; as many digits as somebody writes are no number at all."""


def offset_at(reset: str, log: PartitionLog, now_ms: int) -> int:
    """`earliest`, `latest` or `by_duration:PnDTnHnMnS`. May read from disk."""
    if reset == "earliest":
        return log.start_offset
    if reset.startswith("by_duration:"):
        found = log.find_time(now_ms - duration_ms(reset.partition(":")[2]))
        return log.durable_offset if found is None else max(found.offset, log.start_offset)
    return log.durable_offset


def duration_ms(text: str) -> int:
    """An ISO 8601 duration of days and less."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no duration")
    days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return round(min((((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000, _EVER_MS))
