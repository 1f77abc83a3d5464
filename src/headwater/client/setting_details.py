"""What each setting of a topic or a broker is, means and would be by default; changes, tried or made.

The console asks. `settings` asks for less, by librdkafka, which has no words for what a setting means.
"""

from __future__ import annotations

from headwater import only_kio  # noqa: F401, isort: skip  (before anything of kio's)

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Protocol

from headwater.client.cluster import Cluster
from headwater.client.connection import DESCRIBE_CONFIGS, Connection
from headwater.client.errors import BadRequest, NotThere, RequestRefused
from headwater.client.exchange import asking, check
from headwater.client.log import Log

ALTER = 44
_SET, _DELETE = 0, 1
_TYPES = {
    1: "true or false",
    2: "text",
    3: "whole number",
    4: "whole number",
    5: "whole number",
    6: "number",
    7: "list with commas",
    8: "class",
    9: "password",
}
_SOURCES = {
    1: "this topic",
    2: "this broker, while it runs",
    3: "all brokers, while they run",
    4: "the broker's file",
    5: "default",
}


_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
_UNITS = {
    "retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
}
"""Times of a topic that a broker may give in other units, and then does not name beside the topic's own."""


class Kind(IntEnum):
    """Of what the settings are; Kafka's numbers."""

    TOPIC = 2
    BROKER = 4


@dataclass(frozen=True)
class Place:
    """Whose settings: a topic, one broker by its number, or with an empty name all brokers."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        if self.kind is Kind.TOPIC:
            return f"topic {self.name}"
        return f"broker {self.name}" if self.name else "all brokers"


@dataclass(frozen=True)
class Detail:
    """One setting. A secret's values are None."""

    name: str
    value: str | None
    given_by: str
    is_own: bool
    """Whether it was given to the place itself, and can be taken back."""
    fallback: str | None
    """What holds once the value of its own is gone; the value itself, where it has none."""
    is_read_only: bool = False
    is_secret: bool = False
    form: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Change:
    """`after` None: back to what holds without a value of its own."""

    name: str
    before: str | None
    after: str | None
    fallback: str | None = None

    @property
    def result(self) -> str | None:
        return self.fallback if self.after is None else self.after


def described(log: Log, place: Place) -> list[Detail]:
    """All of them, by name."""
    found = _described(log, place)
    if any(_lacks(each) for each in found):
        try:
            known = _described(log, Place(Kind.BROKER, brokers(log)[0]))
        except RequestRefused:
            return found  # not for this user to see
        broker = {each.name: each.value for each in known}
        found = [
            replace(each, fallback=in_ms(each.name, broker)) if _lacks(each) else each
            for each in found
        ]
    return found


def _lacks(detail: Detail) -> bool:
    return detail.is_own and detail.fallback is None and detail.name in _UNITS


def in_ms(name: str, broker: Mapping[str, str | None]) -> str | None:
    """What a topic's time is where only the broker gives it, in whichever unit; pure."""
    for each, unit_ms in _UNITS[name]:
        value = broker.get(each) or ""
        if value.lstrip("-").isdigit():
            return str(int(value) * unit_ms if int(value) > 0 else int(value))
    return None


def _described(log: Log, place: Place) -> list[Detail]:
    what = f"reading the settings of {place}"
    body = {
        "resources": [
            {
                "resource_type": int(place.kind),
                "resource_name": place.name,
                "configuration_keys": None,
            }
        ],
        "include_synonyms": True,
        "include_documentation": True,
    }
    with asking(log, what) as asked:
        answer = asked.retrying(lambda: _at(asked, place).ask(DESCRIBE_CONFIGS, body))
    (found,) = answer.results
    check(found.error_code, what, found.error_message)
    return sorted((_detail(each, place) for each in found.configs), key=lambda each: each.name)


def brokers(log: Log) -> list[str]:
    """The numbers of those that there are."""
    with asking(log, "asking for the brokers") as asked:
        return [str(each) for each in sorted(asked.metadata([]).brokers)]


def changes(
    known: Iterable[Detail], given: Mapping[str, str], removed: Iterable[str] = ()
) -> list[Change]:
    """What would differ, of what is asked for; BadRequest for what cannot be changed at all. Pure."""
    by_name = {each.name: each for each in known}
    found = []
    for name, after in [*given.items(), *((each, None) for each in removed)]:
        detail = by_name.get(name)
        if detail is not None and detail.is_read_only:
            raise BadRequest(
                f"{name} is read when the broker starts, and cannot be changed while it runs",
                hint="change it in the broker's file, or under [log.settings], and start the broker again",
            )
        before = None if detail is None else detail.value
        fallback = None if detail is None else detail.fallback
        is_same = (after is None and detail is not None and not detail.is_own) or (
            after is not None
            and detail is not None
            and detail.is_own
            and after == before
            and not detail.is_secret
        )
        if not is_same:
            found.append(Change(name, before, after, fallback))
    return found


def alter(log: Log, place: Place, wanted: Sequence[Change], *, dry_run: bool) -> None:
    """All at once or none; with `dry_run` the broker only says whether it would."""
    what = f"{'checking' if dry_run else 'changing'} the settings of {place}"
    configs = [
        {
            "name": each.name,
            "config_operation": _DELETE if each.after is None else _SET,
            "value": each.after,
        }
        for each in wanted
    ]
    body = {
        "resources": [
            {"resource_type": int(place.kind), "resource_name": place.name, "configs": configs}
        ],
        "validate_only": dry_run,
    }
    with asking(log, what) as asked:
        answer = asked.retrying(lambda: _at(asked, place).ask(ALTER, body))
    for each in answer.responses:
        check(each.error_code, what, each.error_message)


def _at(asked: Cluster, place: Place) -> Connection:
    """A broker answers for its own settings only."""
    if place.kind is not Kind.BROKER or not place.name:
        return asked.anyone()
    if not place.name.isdigit():
        raise NotThere(f"there is no broker {place.name!r}", hint="a broker has a number")
    return asked.node(int(place.name))


class _Synonym(Protocol):
    source: int
    value: str | None


class _Entry(Protocol):
    """Of a DescribeConfigs answer, version 3 or later."""

    name: str
    value: str | None
    read_only: bool
    config_source: int
    is_sensitive: bool
    synonyms: Sequence[_Synonym]


def _detail(entry: _Entry, place: Place) -> Detail:
    own = _own_source(place)
    source = int(entry.config_source)
    synonyms = [(int(each.source), each.value) for each in entry.synonyms]
    below = [value for level, value in synonyms if level != own]
    return Detail(
        entry.name,
        None if entry.is_sensitive else entry.value,
        _SOURCES.get(source, "elsewhere"),
        source == own,
        below[0] if below else None if source == own else entry.value,
        entry.read_only,
        entry.is_sensitive,
        _TYPES.get(int(getattr(entry, "config_type", 0)), ""),
        " ".join((getattr(entry, "documentation", None) or "").split()),
    )


def _own_source(place: Place) -> int:
    if place.kind is Kind.TOPIC:
        return 1
    return 2 if place.name else 3
