"""The broker's `log.*` settings: what a topic has where its own configs say nothing.

Read by `values`. Most have a topic config behind the name (`topic` lists the pairs). Times come in
two or three units, as Kafka has them: milliseconds win over minutes, minutes over hours.
"""

from __future__ import annotations

from headwater.broker.settings.definitions import (
    CLUSTER_WIDE,
    LONG_MAX,
    Check,
    Definition,
    Kind,
    at_least,
    between,
    between_or,
    items_of,
    one_of,
)

CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
COMPRESSION_TYPE = one_of(*CODECS)
GZIP_LEVEL = between_or(1, 9, -1)
LZ4_LEVEL = between(1, 17)
ZSTD_LEVEL = between(-131_072, 22)
SEGMENT_BYTES = at_least(1024**2)
TIMESTAMP_TYPE = one_of("CreateTime", "LogAppendTime")
CLEANUP_POLICY = items_of("compact", "delete")


def _retention(name: str) -> Check:
    says = f"{name} must be unlimited (-1) or, greater than or equal to 1"
    return Check(lambda value: says if value == 0 else None, "1 or more, or -1")


def _dynamic(
    name: str, kind: Kind, default: object, doc: str, check: Check | None = None
) -> Definition:
    return Definition(name, kind, default, doc, check, CLUSTER_WIDE)


SEGMENTS = (
    _dynamic(
        "log.segment.bytes", Kind.INT, 1024**3, "Size at which a segment is closed.", SEGMENT_BYTES
    ),
    _dynamic(
        "log.roll.ms",
        Kind.LONG,
        None,
        "Age at which a segment is closed; where not set, log.roll.hours.",
        at_least(1),
    ),
    Definition("log.roll.hours", Kind.INT, 168, "The same in hours.", at_least(1)),
    _dynamic(
        "log.roll.jitter.ms",
        Kind.LONG,
        None,
        "Random part taken off that age, so that segments do not all close together.",
        at_least(0),
    ),
    Definition("log.roll.jitter.hours", Kind.INT, 0, "The same in hours.", at_least(0)),
    _dynamic(
        "log.index.size.max.bytes",
        Kind.INT,
        10 * 1024**2,
        "Largest offset index; a full one closes its segment. Less than 1024 counts as 1024.",
        at_least(4),
    ),
    _dynamic(
        "log.index.interval.bytes",
        Kind.INT,
        4096,
        "Bytes of log between two entries of the offset index; more than 65536 is as good as that.",
        at_least(0),
    ),
    _dynamic(
        "log.segment.delete.delay.ms",
        Kind.LONG,
        60_000,
        "Files go as soon as nobody reads them.",
        at_least(0),
    )._replace(effect=False),
    _dynamic("log.preallocate", Kind.BOOLEAN, False, "Segments grow as they are written.")._replace(
        effect=False
    ),
)

SPACE = (
    _dynamic(
        "log.min.free.bytes",
        Kind.LONG,
        256 * 1024**2,
        "Free bytes on the disk of the data directory below which new records and topics are refused "
        "with KAFKA_STORAGE_ERROR, while reads, commits, the ends of transactions, retention and "
        "deletions go on; 0 turns it off. Where nothing is set, at most a twentieth of the disk. "
        "Not one of Kafka's.",
        at_least(0),
    ),
)

RETENTION = (
    _dynamic(
        "log.cleanup.policy",
        Kind.LIST,
        ["delete"],
        "delete drops old segments, compact keeps the newest record of each key; both may be "
        "given, and neither, which keeps everything.",
        CLEANUP_POLICY,
    ),
    _dynamic(
        "log.retention.bytes",
        Kind.LONG,
        -1,
        "Size of a partition beyond which its oldest segments go; -1 for no bound.",
    ),
    _dynamic(
        "log.retention.ms",
        Kind.LONG,
        None,
        "Age at which segments go; -1 for no bound; where not set, log.retention.minutes.",
        _retention("log.retention.ms"),
    ),
    Definition(
        "log.retention.minutes",
        Kind.INT,
        None,
        "The same in minutes; where not set, log.retention.hours.",
        _retention("log.retention.minutes"),
    ),
    Definition(
        "log.retention.hours",
        Kind.INT,
        168,
        "The same in hours.",
        _retention("log.retention.hours"),
    ),
    Definition(
        "log.retention.check.interval.ms",
        Kind.LONG,
        300_000,
        "How often retention looks for segments to drop.",
        at_least(1),
    ),
    _dynamic(
        "log.local.retention.bytes", Kind.LONG, -2, "There is no remote tier.", at_least(-2)
    )._replace(effect=False),
    _dynamic(
        "log.local.retention.ms", Kind.LONG, -2, "There is no remote tier.", at_least(-2)
    )._replace(effect=False),
)

COMPACTION = (
    Definition(
        "log.cleaner.enable", Kind.BOOLEAN, True, "Whether topics with compact are compacted."
    ),
    _dynamic(
        "log.cleaner.threads", Kind.INT, 1, "There is one compaction at a time.", at_least(0)
    )._replace(effect=False),
    _dynamic(
        "log.cleaner.backoff.ms",
        Kind.LONG,
        15_000,
        "Pause before looking again when no log was worth compacting.",
        at_least(0),
    ),
    _dynamic(
        "log.cleaner.min.cleanable.ratio",
        Kind.DOUBLE,
        0.5,
        "Share of a log that must be new since the last compaction to make it worth one.",
        between(0, 1),
    ),
    _dynamic(
        "log.cleaner.min.compaction.lag.ms",
        Kind.LONG,
        0,
        "Age that a record must have before compaction touches it.",
        at_least(0),
    ),
    _dynamic(
        "log.cleaner.max.compaction.lag.ms",
        Kind.LONG,
        LONG_MAX,
        "Age at which a record makes its log worth compacting, whatever the ratio.",
        at_least(1),
    ),
    _dynamic(
        "log.cleaner.delete.retention.ms",
        Kind.LONG,
        86_400_000,
        "Time that a tombstone stays after compaction, so that readers learn of the deletion.",
        at_least(0),
    ),
    _dynamic(
        "log.cleaner.dedupe.buffer.size",
        Kind.LONG,
        128 * 1024**2,
        "Memory for the keys of one compaction; more keys take more passes.",
    ),
    _dynamic(
        "log.cleaner.io.max.bytes.per.second",
        Kind.DOUBLE,
        1.7976931348623157e308,
        "Bytes that compaction may read and write in a second.",
    ),
)

MESSAGES = (
    _dynamic(
        "message.max.bytes",
        Kind.INT,
        1_048_588,
        "Largest record batch that is taken, as it arrives.",
        at_least(0),
    ),
    _dynamic(
        "compression.type",
        Kind.STRING,
        "producer",
        "Codec in which batches are stored; producer keeps them as they came.",
        COMPRESSION_TYPE,
    ),
    _dynamic("compression.gzip.level", Kind.INT, -1, "Level where that codec is gzip.", GZIP_LEVEL),
    _dynamic("compression.lz4.level", Kind.INT, 9, "Level where that codec is lz4.", LZ4_LEVEL),
    _dynamic("compression.zstd.level", Kind.INT, 3, "Level where that codec is zstd.", ZSTD_LEVEL),
    _dynamic(
        "log.message.timestamp.type",
        Kind.STRING,
        "CreateTime",
        "Whose clock a record's timestamp is: the producer's, or the broker's (LogAppendTime).",
        TIMESTAMP_TYPE,
    ),
    _dynamic(
        "log.message.timestamp.before.max.ms",
        Kind.LONG,
        LONG_MAX,
        "How far behind the broker's clock a producer's timestamp may be.",
        at_least(0),
    ),
    _dynamic(
        "log.message.timestamp.after.max.ms",
        Kind.LONG,
        3_600_000,
        "How far ahead of the broker's clock a producer's timestamp may be.",
        at_least(0),
    ),
)

_BY_DURABILITY = "Flushing follows durability, not counts or clocks."
FLUSHING = (
    Definition(
        "log.flush.offset.checkpoint.interval.ms",
        Kind.INT,
        60_000,
        "How often the recovery points are written down; recovery reads what came after.",
        at_least(0),
    ),
    Definition(
        "log.flush.start.offset.checkpoint.interval.ms",
        Kind.INT,
        60_000,
        "Log start offsets are written down whenever they change.",
        at_least(0),
        effect=False,
    ),
    _dynamic(
        "log.flush.interval.messages", Kind.LONG, LONG_MAX, _BY_DURABILITY, at_least(1)
    )._replace(effect=False),
    _dynamic("log.flush.interval.ms", Kind.LONG, None, _BY_DURABILITY)._replace(effect=False),
    Definition(
        "log.flush.scheduler.interval.ms", Kind.LONG, LONG_MAX, _BY_DURABILITY, effect=False
    ),
)

LOGS = (*SEGMENTS, *SPACE, *RETENTION, *COMPACTION, *MESSAGES, *FLUSHING)
