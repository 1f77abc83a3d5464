"""What tests of webhooks and alerts look at in the log; none of it fails while something is being made."""

from __future__ import annotations

from headwater.client import groups
from headwater.client.log import Log
from headwater.errors import HeadwaterError


def end_of(log: Log, topic: str) -> int:
    """The end of its first partition; 0 for a topic that is not there, or has no leader yet."""
    try:
        return log.ranges(topic)[0][1]
    except HeadwaterError:
        return 0


def has_member(log: Log, group: str) -> bool:
    """Whether somebody reads as this group, and so has a position."""
    try:
        return any(each.partitions for each in groups.named(log, group).members)
    except HeadwaterError:
        return False
