"""Settings of the share coordinator and of dead letters, beside those of share groups themselves."""

from __future__ import annotations

from headwater.broker.settings.definitions import CLUSTER_WIDE, Definition, Kind, at_least

SHARES = (
    Definition(
        "share.coordinator.state.topic.num.partitions",
        Kind.INT,
        1,
        "Partitions of __share_group_state when it is created; one node has no load to spread.",
        at_least(1),
    ),
    Definition(
        "share.coordinator.state.topic.segment.bytes",
        Kind.INT,
        100 * 1024**2,
        "Segment size of __share_group_state.",
        at_least(1),
    ),
    Definition(
        "share.coordinator.snapshot.update.records.per.snapshot",
        Kind.INT,
        500,
        "After so many changes of a share-partition its whole state is written, to shorten replay.",
        at_least(0),
    ),
    Definition(
        "share.dead.letters.enable",
        Kind.BOOLEAN,
        True,
        "Whether a share group that names no dead-letter topic gets one: the prefix and its name.",
        update=CLUSTER_WIDE,
    ),
    Definition(
        "errors.deadletterqueue.topic.name.prefix",
        Kind.STRING,
        "dlq.",
        "How the name of every dead-letter topic must begin, so that nothing else is written to.",
        update=CLUSTER_WIDE,
    ),
)
