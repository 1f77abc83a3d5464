"""Which segments are old enough to go: the ring buffer. Pure; the broker's housekeeping calls it.

Oldest first, as Kafka does it: a segment goes when its latest record is older than `retention.ms`,
when the log without it still has `retention.bytes`, or when all of it lies before the log's start
(DeleteRecords). The first segment that stays ends the search.
"""

from __future__ import annotations

from headwater.log import time_lookup
from headwater.log.config import LogConfig
from headwater.log.partition import PartitionLog
from headwater.log.segment import Segment


def expired(log: PartitionLog, now_ms: int) -> int:
    """How many segments from the front are to go; may include the active one (roll it first)."""
    config = log.config
    excess = log.size() - config.retention_bytes if config.retention_bytes >= 0 else 0
    count = 0
    for number, segment in enumerate(log.segments):
        following = log.segments[number + 1] if number + 1 < len(log.segments) else None
        if segment.next_offset > log.durable_offset:
            break  # not all of it is durable, let alone old
        if segment.is_replaced:
            break  # the file of its name has other records, too
        before_start = following is not None and following.base_offset <= log.start_offset
        too_large = config.delete and following is not None and excess >= segment.size > 0
        if not (before_start or too_large or too_old(segment, config, now_ms)):
            break
        excess -= segment.size
        count += 1
    return count


def may_go(log: PartitionLog, count: int) -> int:
    """So many of the first `count` segments as a snapshot says what they do of the producers."""
    ends = [*(segment.base_offset for segment in log.segments[1:]), log.next_offset]
    while count and not log.snapshots.reach(ends[count - 1]):
        count -= 1
    return count


def too_old(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    if not config.delete or config.retention_ms < 0 or not segment.size:
        return False
    latest = time_lookup.largest(segment)
    return now_ms - (latest if latest >= 0 else segment.created_ms) > config.retention_ms
