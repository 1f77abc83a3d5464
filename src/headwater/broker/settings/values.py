"""The broker's settings as they stand: four layers, one value for each name, and who set it.

`headwater broker` and the tests build a `Settings` from what the user wrote; every part of the
broker reads it with `get`; the config APIs change its two dynamic layers through the catalogue,
which keeps them on disk and hands them back with `set_dynamic` at the next start. Weak to strong:

    default  <  static (file, --set)  <  dynamic for all brokers ("")  <  dynamic for this broker

A name that no table has is the caller's mistake in `get` (KeyError) and the user's in `parse`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.broker.settings.coordinators import COORDINATORS
from headwater.broker.settings.definitions import BadValue, Definition, by_name, parse, render
from headwater.broker.settings.group import GROUP, group_default
from headwater.broker.settings.group_types import NEWER_GROUPS, ORDERED
from headwater.broker.settings.limits import LIMITS
from headwater.broker.settings.logs import LOGS
from headwater.broker.settings.node import NODE
from headwater.broker.settings.security import JAAS, PER_LISTENER, PREFIX, SECURITY
from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    import asyncio

_log = logging.getLogger(__name__)

BROKER: dict[str, Definition] = by_name((NODE, LOGS, COORDINATORS, NEWER_GROUPS, LIMITS, SECURITY))
"""Every setting of the broker by name."""

_SAME_IN_OTHER_UNITS = {
    name: group
    for group in (
        ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
        ("log.roll.ms", "log.roll.hours"),
        ("log.roll.jitter.ms", "log.roll.jitter.hours"),
        ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    for name in group
}
_ORDERED = (
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    *ORDERED,
)


class Source(IntEnum):
    """Who set a value; the numbers are DescribeConfigs' `config_source`."""

    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Synonym(NamedTuple):
    """One layer's word on a setting."""

    name: str
    value: Any
    source: Source


class SettingError(HeadwaterError):
    """Settings that cannot be used; `problems` has one sentence for each of them."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems), hint="`headwater settings` lists every setting.")
        self.problems = list(problems)


class Settings:
    """Typed values of all settings. One per broker; the broker's event loop owns it."""

    def __init__(self, given: Mapping[str, object] | None = None) -> None:
        """`given` is what the user wrote, by name: text, or a value of the right type."""
        given = given or {}
        self._per_listener = _parse_listeners({k: v for k, v in given.items() if _prefixed(k)})
        self._static = _parse_all({k: v for k, v in given.items() if not _prefixed(k)})
        self._dynamic: dict[str, dict[str, Any]] = {}
        self._groups: dict[str, dict[str, Any]] = {}
        self._listeners: dict[str, list[Callable[[Any], None]]] = {}
        self._defaults = {name: definition.default for name, definition in BROKER.items()}
        self._values = self._merged()

    @cached_property
    def changing(self) -> asyncio.Lock:
        """Held from reading the configs to writing the changed ones, so that no change is lost."""
        import asyncio  # slow to import, and only a running broker needs it

        return asyncio.Lock()

    @classmethod
    def parse(cls, given: Mapping[str, object]) -> Settings:
        """The same as `Settings(given)`: typed values, or a `SettingError` with every problem."""
        return cls(given)

    def get(self, name: str) -> Any:
        """The value in force, typed; None where nothing is set and nothing is the default."""
        return self._values[name]

    def group(self, group_id: str, name: str) -> Any:
        """A group's config by its own name (`consumer.session.timeout.ms`): what was set for this
        group, else the broker's setting behind it."""
        own = self._groups.get(group_id)
        if own is not None and name in own:
            return own[name]
        return group_default(self, GROUP[name])

    def set_group(self, group_id: str, configs: Mapping[str, str]) -> None:
        """Replace a group's own configs; called by the catalogue once the change is durable."""
        own = _parse_known(f"group {group_id}", configs, GROUP)
        if own:
            self._groups[group_id] = own
        else:
            self._groups.pop(group_id, None)

    def of_listener(self, listener: str) -> Mapping[str, Any]:
        """What `listener.name.LISTENER.…` says, by the rest of the name."""
        return self._per_listener.get(listener.upper(), {})

    def source(self, name: str) -> Source:
        """Which layer the value in force comes from."""
        return next((synonym.source for synonym in self.explain(name)), Source.DEFAULT)

    def explain(self, name: str) -> list[Synonym]:
        """Every layer that says something about this setting, strongest first, as Kafka lists them:
        a stronger layer's word in another unit counts only below a word in this one."""
        names = _SAME_IN_OTHER_UNITS.get(name, (name,))
        found = [
            Synonym(each, layer[each], source)
            for source, layer in self._layers()
            for each in names
            if layer.get(each) is not None
        ]
        start = next((i for i, synonym in enumerate(found) if synonym.name == name), len(found))
        return found[start:]

    def dynamic(self, node: str) -> dict[str, str]:
        """What the config APIs have set for one broker, or ("") for all."""
        return {name: render(value) or "" for name, value in self._dynamic.get(node, {}).items()}

    def check_dynamic(self, node: str, configs: Mapping[str, str]) -> None:
        """Raise `BadValue` where these would not do as the whole dynamic layer of `node`."""
        layer = {name: parse(BROKER[name], text) for name, text in configs.items()}
        conflicts = _conflicts(self._merged({**self._dynamic, node: layer}))
        if conflicts:
            raise BadValue(conflicts[0])

    def set_dynamic(self, node: str, configs: Mapping[str, str]) -> set[str]:
        """Replace the dynamic layer of one broker, or ("") of all, and tell who listens.

        Called by the catalogue once the change is durable, and at start with what it has on disk.
        A name or value that this version does not know is left out with a warning: an old data
        directory must not keep the broker from starting. Returns the names whose value changed.
        """
        self._dynamic[node] = _parse_known(f"broker {node!r}", configs, BROKER)
        before, self._values = self._values, self._merged()
        changed = {name for name, value in self._values.items() if value != before[name]}
        for name in sorted(changed):
            for callback in self._listeners.get(name, ()):
                callback(self._values[name])
        return changed

    def on_change(self, name: str, callback: Callable[[Any], None]) -> None:
        """Call back with the new value, on the event loop, each time that this one changes."""
        assert name in BROKER, f"no setting is called {name}"
        self._listeners.setdefault(name, []).append(callback)

    def _layers(
        self, dynamic: Mapping[str, dict[str, Any]] | None = None
    ) -> list[tuple[Source, dict[str, Any]]]:
        dynamic = self._dynamic if dynamic is None else dynamic
        node = self._static.get("node.id", self._defaults["node.id"])
        return [
            (Source.DYNAMIC_BROKER, dynamic.get(str(node), {})),
            (Source.DYNAMIC_DEFAULT, dynamic.get("", {})),
            (Source.STATIC, self._static),
            (Source.DEFAULT, self._defaults),
        ]

    def _merged(self, dynamic: Mapping[str, dict[str, Any]] | None = None) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for _, layer in reversed(self._layers(dynamic)):
            merged.update(layer)
        return merged


def _parse_all(given: Mapping[str, object]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, written in given.items():
        definition = BROKER.get(name)
        if definition is None:
            problems.append(unknown_setting(name))
            continue
        try:
            values[name] = parse(definition, render(written) or "")
        except BadValue as error:
            problems.append(f"{error}.")
    defaults = {name: definition.default for name, definition in BROKER.items()}
    problems += [*_one_identity(values), *_conflicts({**defaults, **values})]
    if problems:
        raise SettingError(problems)
    return values


def _prefixed(name: str) -> bool:
    return name.startswith(PREFIX)


def _parse_listeners(given: Mapping[str, object]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    problems: list[str] = []
    for full, written in given.items():
        listener, _, name = full.removeprefix(PREFIX).partition(".")
        definition = JAAS.get(name.lower()) or PER_LISTENER.get(name)
        if definition is None:
            problems.append(f"Unknown setting {full}: a listener has no {name} of its own.")
            continue
        try:
            value = parse(definition, render(written) or "")
        except BadValue as error:
            problems.append(f"{error}.")
            continue
        found.setdefault(listener.upper(), {})[definition.name] = value
    if problems:
        raise SettingError(problems)
    return found


def _one_identity(values: dict[str, Any]) -> list[str]:
    """`broker.id` is what `node.id` was called before KRaft: the one stands in for the other."""
    if "broker.id" not in values:
        return []
    if values.setdefault("node.id", values["broker.id"]) == values["broker.id"]:
        return []
    return ["node.id and broker.id are two names for one number, and differ here."]


def _parse_known(
    owner: str, configs: Mapping[str, str], table: Mapping[str, Definition]
) -> dict[str, Any]:
    layer: dict[str, Any] = {}
    for name, text in configs.items():
        try:
            layer[name] = parse(table[name], text)
        except (BadValue, KeyError) as error:
            _log.warning("dynamic setting %s of %s is left out: %s", name, owner, error)
    return layer


def _conflicts(values: Mapping[str, Any]) -> list[str]:
    """Pairs of settings that contradict each other."""
    return [
        f"{low} ({values[low]}) must not be more than {high} ({values[high]})."
        for low, high in _ORDERED
        if values[low] > values[high]
    ]


def unknown_setting(name: str) -> str:
    """One sentence on a name that no setting has, with the one that was probably meant."""
    from difflib import get_close_matches  # only a mistake needs it

    from headwater.broker.settings.topic import TOPIC

    if name in TOPIC:
        synonyms = TOPIC[name].synonyms
        instead = f": its default for all topics is {synonyms[0][0]}" if synonyms else ""
        return f"{name} is a topic's config, not the broker's{instead}."
    near = get_close_matches(name.replace("_", ".").lower(), BROKER, n=1, cutoff=0.7)
    return f"Unknown setting {name}" + (f": did you mean {near[0]}?" if near else ".")
