"""How one partition log behaves: sizes, times, cleaning, durability. Plain numbers, no names.

The broker's settings (`broker.settings.topic.topic_config`) build one of these for each topic, from
the topic's own configs over the broker's defaults; the log only reads it. A changed config is a new
`LogConfig` handed to the log, never a change of this one. The defaults are Apache Kafka 4's.
"""

from __future__ import annotations

from dataclasses import dataclass

DAY_MS = 24 * 60 * 60 * 1000
NEVER_MS = 2**63 - 1
"""Kafka's way of saying "no bound" for a time."""
INDEX_BYTES_MIN = 1024
"""A smaller index counts as so large: of 4 bytes, which Kafka allows, each batch had files of its own."""


@dataclass(frozen=True, slots=True)
class LogConfig:
    """What a partition log must know of its topic's configuration."""

    segment_bytes: int = 1024**3
    segment_ms: int = 7 * DAY_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024**2
    index_interval_bytes: int = 4096

    retention_bytes: int = -1
    """Per partition; -1 means without bound."""
    retention_ms: int = 7 * DAY_MS
    """-1 means without bound."""
    compact: bool = False
    delete: bool = True
    """`cleanup.policy`; both may be true, and neither (data is then kept for good)."""
    delete_retention_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER_MS

    max_message_bytes: int = 1_048_588
    compression_type: str = "producer"
    """producer, uncompressed, gzip, snappy, lz4 or zstd; producer keeps batches as they came."""
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3

    timestamp_type: str = "CreateTime"
    """Or LogAppendTime."""
    timestamp_before_max_ms: int = NEVER_MS
    timestamp_after_max_ms: int = 3_600_000

    durability: str = "disk"
    """`disk`: acknowledged after fdatasync; `os`: after the write, which is Kafka's habit."""
    is_never_cut: bool = False
    """Nothing is ever deleted from its front: it begins with its first segment, whatever a file says."""
    syncs_durable_offset: bool = False
    """`durable-offset` survives a power cut, too: whoever cuts this log is always found out."""
