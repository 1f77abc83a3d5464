"""Settings of the broker's coordinators: groups, offsets, producers. Read by `values`.

Transactions, share groups and the new group protocol add their tables here when they come.

Settings of the share coordinator and of dead letters, beside those of share groups themselves.
"""

from __future__ import annotations

from headwater.broker.settings.definitions import (
    CLUSTER_WIDE,
    INT_MAX,
    Definition,
    Kind,
    at_least,
)

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


GROUPS = (
    Definition(
        "group.initial.rebalance.delay.ms",
        Kind.INT,
        3000,
        "How long the first rebalance of an empty group waits for more members.",
        at_least(0),
    ),
    Definition(
        "group.min.session.timeout.ms",
        Kind.INT,
        6000,
        "Shortest session time-out that a member may ask for.",
    ),
    Definition(
        "group.max.session.timeout.ms",
        Kind.INT,
        1_800_000,
        "Longest session time-out that a member may ask for.",
    ),
    Definition(
        "group.max.size", Kind.INT, INT_MAX, "Members that one group may have.", at_least(1)
    ),
)

OFFSETS = (
    Definition(
        "offsets.topic.num.partitions",
        Kind.INT,
        1,
        "Partitions of __consumer_offsets when it is created; one node has no load to spread.",
        at_least(1),
    ),
    Definition(
        "offsets.topic.segment.bytes",
        Kind.INT,
        100 * 1024**2,
        "Segment size of __consumer_offsets; small ones are compacted sooner.",
        at_least(1),
    ),
    Definition(
        "offsets.retention.minutes",
        Kind.INT,
        10_080,
        "How long the offsets of a group without members are kept.",
        at_least(1),
    ),
    Definition(
        "offsets.retention.check.interval.ms",
        Kind.LONG,
        600_000,
        "How often expired offsets are looked for.",
        at_least(1),
    ),
    Definition(
        "offset.metadata.max.bytes",
        Kind.INT,
        4096,
        "Longest metadata text that may come with a committed offset.",
    ),
    Definition(
        "offsets.topic.replication.factor",
        Kind.SHORT,
        1,
        "Replicas of __consumer_offsets; one node keeps one.",
        at_least(1),
        effect=False,
    ),
    Definition(
        "offsets.commit.timeout.ms",
        Kind.INT,
        5000,
        "Wait for replicas of a commit; there are none.",
        at_least(1),
        effect=False,
    ),
)

PRODUCERS = (
    Definition(
        "producer.id.expiration.ms",
        Kind.INT,
        86_400_000,
        "How long an idempotent producer that writes nothing is remembered by a partition; "
        "15 minutes are enough where there is no room for new ones.",
        at_least(1),
        CLUSTER_WIDE,
    ),
)

TRANSACTIONS = (
    Definition(
        "transaction.max.timeout.ms",
        Kind.INT,
        900_000,
        "Longest time-out that a transactional producer may ask for.",
        at_least(1),
    ),
    Definition(
        "transactional.id.expiration.ms",
        Kind.INT,
        604_800_000,
        "How long a transactional id that nobody uses is remembered.",
        at_least(1),
    ),
    Definition(
        "transaction.state.log.num.partitions",
        Kind.INT,
        1,
        "Partitions of __transaction_state when it is created; one node has no load to spread.",
        at_least(1),
    ),
    Definition(
        "transaction.state.log.segment.bytes",
        Kind.INT,
        100 * 1024**2,
        "Segment size of __transaction_state; small ones are compacted sooner.",
        at_least(1),
    ),
    Definition(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        Kind.INT,
        10_000,
        "How often transactions that took too long are looked for, and aborted.",
        at_least(1),
    ),
    Definition(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        Kind.INT,
        3_600_000,
        "How often transactional ids that nobody uses are looked for, and forgotten.",
        at_least(1),
    ),
)


def _replicas(name: str, kind: Kind) -> Definition:
    return Definition(name, kind, 1, "One node keeps one replica.", at_least(1), effect=False)


ACCEPTED = (
    _replicas("transaction.state.log.replication.factor", Kind.SHORT),
    _replicas("transaction.state.log.min.isr", Kind.INT),
    _replicas("share.coordinator.state.topic.replication.factor", Kind.SHORT),
    _replicas("share.coordinator.state.topic.min.isr", Kind.SHORT),
)

COORDINATORS = (*GROUPS, *OFFSETS, *PRODUCERS, *TRANSACTIONS, *SHARES, *ACCEPTED)
