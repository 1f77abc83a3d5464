"""Settings of the broker for groups of the newer kinds: consumer groups (KIP-848), streams groups
(KIP-1071) and share groups (KIP-932). Read by `values`; the configs that one group may have of its own are
in `group`.

For each number there are three settings: what a group gets, and the least and the most that a group's
own config may ask for.
"""

from __future__ import annotations

from headwater.broker.settings.definitions import (
    CLUSTER_WIDE,
    INT_MAX,
    READ_ONLY,
    Definition,
    Kind,
    at_least,
    between,
    items_of,
    one_of,
)


def _bounded(
    kind: str,
    name: str,
    values: tuple[int, int, int],
    doc: str,
    floor: int,
    update: str = READ_ONLY,
) -> tuple[Definition, Definition, Definition]:
    """`values`: what a group gets, the least and the most that it may ask for."""
    usual, low, high = values
    check = at_least(floor)
    return (
        Definition(f"group.{kind}.{name}", Kind.INT, usual, doc, check, update),
        Definition(
            f"group.{kind}.min.{name}", Kind.INT, low, f"Least {name} of a {kind} group.", check
        ),
        Definition(
            f"group.{kind}.max.{name}", Kind.INT, high, f"Most {name} of a {kind} group.", check
        ),
    )


def _timing(kind: str) -> tuple[Definition, ...]:
    return (
        *_bounded(
            kind,
            "session.timeout.ms",
            (45_000, 45_000, 60_000),
            f"How long a member of a {kind} group may be silent before it is removed.",
            1,
        ),
        *_bounded(
            kind,
            "heartbeat.interval.ms",
            (5000, 5000, 15_000),
            f"How often a member of a {kind} group is told to send a heartbeat.",
            1,
        ),
        *_bounded(
            kind,
            "assignment.interval.ms",
            (1000, 0, 15_000),
            f"Least time between two assignments of a {kind} group.",
            0,
            CLUSTER_WIDE,
        ),
    )


CONSUMER_GROUPS = (
    *_timing("consumer"),
    Definition(
        "group.consumer.assignors",
        Kind.LIST,
        ["uniform", "range"],
        "Server-side assignors, the first of them the default.",
        items_of("uniform", "range"),
    ),
    Definition(
        "group.consumer.max.size",
        Kind.INT,
        INT_MAX,
        "Members that one consumer group may have.",
        at_least(1),
    ),
    Definition(
        "group.consumer.migration.policy",
        Kind.STRING,
        "bidirectional",
        "Whether a group may move between the classic and the consumer protocol while it is used.",
        one_of("upgrade", "downgrade", "disabled", "bidirectional"),
    ),
    Definition(
        "group.coordinator.rebalance.protocols",
        Kind.LIST,
        ["classic", "consumer", "streams"],
        "Kinds of groups that are served: without `consumer` or `streams` there are none of that kind. "
        "Classic groups there are always, share groups by the feature `share.version`.",
        items_of("consumer", "classic", "share", "streams"),
    ),
)

STREAMS_GROUPS = (
    *_timing("streams"),
    Definition(
        "group.streams.max.size",
        Kind.INT,
        INT_MAX,
        "Members that one streams group may have.",
        at_least(1),
    ),
    Definition(
        "group.streams.num.standby.replicas",
        Kind.INT,
        0,
        "How many standbys each task with state of a streams group has.",
        at_least(0),
    ),
    Definition(
        "group.streams.max.standby.replicas",
        Kind.INT,
        2,
        "Most num.standby.replicas of a streams group.",
        at_least(0),
    ),
    Definition(
        "group.streams.initial.rebalance.delay.ms",
        Kind.INT,
        3000,
        "How long a streams group without members waits for more of them before it assigns.",
        at_least(0),
    ),
)

SHARE_GROUPS = (
    *_timing("share"),
    *_bounded(
        "share",
        "record.lock.duration.ms",
        (30_000, 15_000, 60_000),
        "How long a record that a member of a share group has acquired is its own.",
        1000,
    ),
    Definition(
        "group.share.delivery.count.limit",
        Kind.INT,
        5,
        "How often a record of a share group is delivered before it is given up.",
        between(2, 10),
    ),
    Definition(
        "group.share.min.delivery.count.limit",
        Kind.INT,
        2,
        "Least delivery.count.limit of a share group.",
        between(2, 5),
    ),
    Definition(
        "group.share.max.delivery.count.limit",
        Kind.INT,
        10,
        "Most delivery.count.limit of a share group.",
        between(5, 25),
    ),
    Definition(
        "group.share.partition.max.record.locks",
        Kind.INT,
        2000,
        "Records of one partition that a share group may have in flight.",
        between(100, 10_000),
    ),
    Definition(
        "group.share.min.partition.max.record.locks",
        Kind.INT,
        100,
        "Least partition.max.record.locks of a share group.",
        between(100, 2000),
    ),
    Definition(
        "group.share.max.partition.max.record.locks",
        Kind.INT,
        4000,
        "Most partition.max.record.locks of a share group.",
        between(2000, 20_000),
    ),
    Definition(
        "group.share.max.size",
        Kind.INT,
        200,
        "Members that one share group may have.",
        between(1, 1000),
    ),
    Definition(
        "group.share.max.share.sessions",
        Kind.INT,
        2000,
        "Share sessions that the broker keeps.",
        at_least(1),
    ),
    Definition(
        "group.share.assignors",
        Kind.LIST,
        ["simple"],
        "Server-side assignors of share groups.",
        items_of("simple"),
        effect=False,
    ),
)

NEWER_GROUPS = (*CONSUMER_GROUPS, *STREAMS_GROUPS, *SHARE_GROUPS)

_BOUNDED = tuple(
    pair
    for kind, names in (
        ("consumer", ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")),
        ("streams", ("session.timeout.ms", "heartbeat.interval.ms", "assignment.interval.ms")),
        (
            "share",
            (
                "session.timeout.ms",
                "heartbeat.interval.ms",
                "assignment.interval.ms",
                "record.lock.duration.ms",
                "delivery.count.limit",
                "partition.max.record.locks",
            ),
        ),
    )
    for name in names
    for pair in (
        (f"group.{kind}.min.{name}", f"group.{kind}.{name}"),
        (f"group.{kind}.{name}", f"group.{kind}.max.{name}"),
    )
)
ORDERED = (
    *_BOUNDED,
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
)
"""Pairs of which the first must not be more than the second."""
