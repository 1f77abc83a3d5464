"""Kafka's few numbers that everybody here needs, apart from `cluster` and the messages it loads: a process
that only looks at options, or reads files, starts in half the time without them.
"""

from __future__ import annotations

TopicPartition = tuple[str, int]
EARLIEST, LATEST = -2, -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
