"""Which topics a group subscribes to, as they are now: by name and by regular expression.

`steps` calls `refresh` whenever a subscription has changed or the catalogue has. Topics are
handed in as an `Image`. A change of the topics that matter raises the group's
epoch, and the hash that is stored with it tells after a restart that nothing has changed.
"""

from __future__ import annotations

import logging
from uuid import UUID

from headwater.broker.groups.consumer.group import ConsumerGroup
from headwater.broker.groups.consumer.records import RegexValue
from headwater.broker.groups.consumer.topic_regex import (
    BadRegex,
    Budget,
    TopicRegex,
    compiled,
    names_of,
)
from headwater.broker.groups.group import Image, topics_hash

logger = logging.getLogger("headwater.broker.groups")


def expressions(group: ConsumerGroup | None, said: str | None, image: Image) -> set[str]:
    """Those that `resolve` will look up at the next heartbeat, in which a member says this."""
    wanted = {said} if said else set()
    if group is not None and group.topics_seen != image.version:
        wanted |= _used(group)
    return wanted


def resolve(group: ConsumerGroup, image: Image, now_ms: int, force: bool = False) -> list[str]:
    """Look up the members' regular expressions; returns those whose topics are new or changed.

    One that nobody uses any more is forgotten (and returned, too). One for which this turn has no time stays
    as it is until a heartbeat has had it looked at (`refresh`).
    """
    changed = forget(group)
    names, budget = names_of(image.topics), Budget()
    for expression in _used(group):
        known = group.regexes.get(expression)
        if known is not None and not force:
            continue
        matcher = group.matchers.setdefault(expression, compiled(expression))
        if not budget.allows(matcher, names):
            continue
        topics = _matching(expression, matcher, names, known)
        if known is None or known.topics != topics:
            group.regexes[expression] = RegexValue(topics, image.version, now_ms)
            changed.append(expression)
    return changed


def forget(group: ConsumerGroup) -> list[str]:
    """Forget the expressions that no member uses any more; returns them."""
    used = _used(group)
    for expression in group.matchers.keys() - used:
        del group.matchers[expression]
    gone = [expression for expression in group.regexes if expression not in used]
    for expression in gone:
        del group.regexes[expression]
    return gone


def _used(group: ConsumerGroup) -> set[str]:
    return {member.topic_regex for member in group.members.values() if member.topic_regex}


def _matching(
    expression: str, matcher: TopicRegex, names: frozenset[str], known: RegexValue | None
) -> frozenset[str]:
    """Where there are so many topics by now that it would take too long: those that matched before."""
    try:
        return matcher.among(names)
    except BadRegex as error:
        logger.warning("topics that match %r stay as they are: %s", expression, error)
        return frozenset() if known is None else known.topics


def refresh(group: ConsumerGroup, image: Image) -> bool:
    """See which topics are subscribed to; True if they are not what they were."""
    names = group.known = names_of(image.topics)
    group.subscribe()
    is_complete = all(matcher.has_seen(names) for matcher in group.matchers.values())
    group.topics_seen = image.version if is_complete else None
    before, group.metadata_hash = group.metadata_hash, topics_hash(group.subscribed, image)
    return before != group.metadata_hash


def sizes(group: ConsumerGroup, image: Image) -> dict[UUID, int]:
    found = (image.topics.get(name) for name in sorted(group.subscribed))
    return {topic.id: topic.partitions for topic in found if topic is not None}


def ids_of(names: frozenset[str], image: Image) -> frozenset[UUID]:
    found = (image.topics.get(name) for name in names)
    return frozenset(topic.id for topic in found if topic is not None)
