"""The configs that one group may have of its own: resource type GROUP of the config APIs.

The coordinators read them with `Settings.group(group_id, name)`; the catalogue keeps them. A config
that a group has not set is the broker's setting of the same meaning (its synonym). KIP-848, KIP-932,
KIP-1071, KIP-1240. Sentences and codes are Apache Kafka's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headwater.broker.settings.definitions import (
    BadValue,
    Check,
    Definition,
    Kind,
    at_least,
    by_name,
    one_of,
    parse,
)

if TYPE_CHECKING:
    from headwater.broker.settings.values import Settings

_DURATION = re.compile(
    r"P(?=.)(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d{1,9})?S)?)?", re.ASCII | re.IGNORECASE
)


def _offset_reset(value: str) -> str | None:
    kind, _, duration = value.partition(":")
    if value in ("earliest", "latest") or (kind == "by_duration" and _DURATION.fullmatch(duration)):
        return None
    return (
        f"Invalid value `{value}` for configuration share.auto.offset.reset. The value must be either "
        "'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
    )


def _numbers(kind: str, names: Mapping[str, tuple[int, str]]) -> tuple[Definition, ...]:
    return tuple(
        Definition(
            f"{kind}.{name}",
            Kind.INT,
            None,
            doc,
            at_least(floor),
            synonyms=((f"group.{kind}.{name}", 1),),
        )
        for name, (floor, doc) in names.items()
    )


_TIMING = {
    "session.timeout.ms": (1, "How long a member may be silent before it is removed."),
    "heartbeat.interval.ms": (1, "How often a member is told to send a heartbeat."),
    "assignment.interval.ms": (0, "Least time between two assignments."),
}
_SHARING = {
    "record.lock.duration.ms": (1000, "How long an acquired record is its member's own."),
    "delivery.count.limit": (2, "How often a record is delivered before it is given up."),
    "partition.max.record.locks": (100, "Records of one partition that may be in flight."),
}
_STREAMS = {
    "num.standby.replicas": (0, "How many standbys each task with state has."),
    "initial.rebalance.delay.ms": (0, "How long a first assignment waits for more members."),
}
_BOUNDS = {
    "streams.num.standby.replicas": (None, "group.streams.max.standby.replicas"),
    "streams.initial.rebalance.delay.ms": (None, None),
}
"""Least and most that a group may ask for, where their names do not follow from the config's."""

GROUP: dict[str, Definition] = by_name(
    (
        _numbers("consumer", _TIMING),
        _numbers("streams", {**_TIMING, **_STREAMS}),
        _numbers("share", {**_TIMING, **_SHARING}),
        (
            Definition(
                "share.auto.offset.reset",
                Kind.STRING,
                "latest",
                "Where a share group starts that has no position yet.",
                Check(_offset_reset, "earliest, latest or by_duration:PnDTnHnMn.nS"),
            ),
            Definition(
                "share.isolation.level",
                Kind.STRING,
                "read_uncommitted",
                "Whether a share group reads only what was committed.",
                one_of("read_committed", "read_uncommitted"),
            ),
            Definition(
                "share.renew.acknowledge.enable",
                Kind.BOOLEAN,
                True,
                "Whether a member may renew its lock on a record.",
            ),
            Definition(
                "errors.deadletterqueue.topic.name",
                Kind.STRING,
                None,
                "Where a share group's rejected and given-up records go; empty: nowhere. Not set: "
                "`share.dead.letters.enable` decides.",
            ),
        ),
    )
)
"""Every config of a group by name."""


def group_default(settings: Settings, definition: Definition) -> Any:
    """What a group has that has set nothing."""
    if definition.synonyms:
        return settings.get(definition.synonyms[0][0])
    return definition.default


def validate_group_configs(configs: Mapping[str, str], settings: Settings) -> None:
    """Raise `BadValue` where one of them may not be."""
    for name, text in configs.items():
        if name not in GROUP:
            raise BadValue(f"Unknown group config name: {name}")
        value = parse(GROUP[name], text)
        if GROUP[name].synonyms:
            low, high = _bounds(name)
            if low is not None and value < settings.get(low):
                raise BadValue(f"{name} must be greater than or equal to {low}")
            if high is not None and value > settings.get(high):
                raise BadValue(f"{name} must be less than or equal to {high}")


def _bounds(name: str) -> tuple[str | None, str | None]:
    """The settings that say how little and how much a group's number may be."""
    kind, _, what = name.partition(".")
    return _BOUNDS.get(name, (f"group.{kind}.min.{what}", f"group.{kind}.max.{what}"))
