"""Topics: make, configure, grow and delete them; and the settings of brokers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headwater.client import groups, setting_details, topics
from headwater.client.errors import BadRequest, RequestRefused, told
from headwater.client.namespace import is_own
from headwater.client.setting_details import Change, Kind, Place
from headwater.console.actions import Action
from headwater.console.context import Visit

BY_DEFAULT = -1


@dataclass(frozen=True)
class NewTopic:
    """As it is asked for; `BY_DEFAULT`: as the broker gives it to every new topic."""

    name: str
    partitions: int = BY_DEFAULT
    replicas: int = BY_DEFAULT
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Loss:
    """What goes with a topic."""

    records: int
    bytes: int | None
    partitions: int
    groups: tuple[str, ...]
    """Those that have a position in it, or read it."""


def create(visit: Visit, wanted: NewTopic, *, dry_run: bool) -> None:
    visit.must(Action.CREATE_TOPIC)
    _refuse_internal(wanted.name)
    if not wanted.name:
        raise BadRequest("the topic has no name yet", hint="type one")
    with told(f"{'checking' if dry_run else 'creating'} topic {wanted.name}", visit.log.bootstrap):
        topics.create(
            visit.log.admin,
            wanted.name,
            wanted.partitions,
            wanted.settings,
            replicas=wanted.replicas,
            dry_run=dry_run,
        )


def configure(visit: Visit, topic: str, wanted: Sequence[Change], *, dry_run: bool) -> None:
    visit.must(Action.CONFIGURE_TOPIC)
    _refuse_internal(topic)
    setting_details.alter(visit.log, Place(Kind.TOPIC, topic), wanted, dry_run=dry_run)


def configure_broker(visit: Visit, broker: str, wanted: Sequence[Change], *, dry_run: bool) -> None:
    """`broker` is a number, or empty for all of them."""
    visit.must(Action.CONFIGURE_BROKER)
    setting_details.alter(visit.log, Place(Kind.BROKER, broker), wanted, dry_run=dry_run)


def grow(visit: Visit, topic: str, partitions: int, *, dry_run: bool) -> None:
    visit.must(Action.ADD_PARTITIONS)
    _refuse_internal(topic)
    what = f"{'checking' if dry_run else 'adding'} partitions of {topic}"
    with told(what, visit.log.bootstrap):
        topics.grow(visit.log.admin, topic, partitions, dry_run=dry_run)


def would_lose(visit: Visit, topic: str) -> Loss:
    """What `delete` would take away."""
    visit.must(Action.DELETE_TOPIC)
    _refuse_internal(topic)
    found = topics.named(visit.log, topic)
    readers = [each.name for each in groups.listed(visit.log) if topic in each.topics]
    return Loss(found.offsets, found.bytes, len(found.partitions), tuple(readers))


def delete(visit: Visit, topic: str, typed: str) -> None:
    """`typed`: the name once more, by hand."""
    visit.must(Action.DELETE_TOPIC)
    _refuse_internal(topic)
    must_match(topic, typed)
    with told(f"deleting topic {topic}", visit.log.bootstrap):
        topics.delete(visit.log.admin, topic)


def must_match(name: str, typed: str) -> None:
    """Before what cannot be taken back."""
    if typed.strip() != name:
        raise BadRequest(f"{typed.strip()!r} is not {name!r}", hint="type the name as it is")


def settings_in(text: str) -> dict[str, str]:
    """Lines NAME=VALUE; pure."""
    found: dict[str, str] = {}
    for line in filter(None, (each.strip() for each in text.splitlines())):
        name, sign, value = line.partition("=")
        if not sign or not name.strip():
            raise BadRequest(
                f"{line!r} is no setting", hint="write NAME=VALUE, as in retention.ms=86400000"
            )
        found[name.strip()] = value.strip()
    return found


def _refuse_internal(topic: str) -> None:
    if is_own(topic):
        raise RequestRefused(
            f"{topic} is the log's own, and is not changed from here",
            hint="it is kept by those who need it: a change from here could undo what they have done",
        )
