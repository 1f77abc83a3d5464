"""[edges.bridges.NAME]: which bridge, between what, read and checked.

    [edges.bridges.sensors]                     [edges.bridges.commands]
    from = "mqtt://broker/sensors/#"            from = "topic:commands"
    to = "topic:readings"                       to = "mqtt://broker/commands/{key}"
    once = "message-id"                         start = "end"

Exactly one side is a topic. Settings beyond these four are the bridge's own (`OPTIONS` of its class).

Which class an address means.

    mqtt://…                  one of ours, or one that an installed package offers for the scheme:
                              entry points `headwater.bridges.in` and `headwater.bridges.out`
    package.module:Class      any class of the project's own, found beside headwater.toml

Classes are imported when they are asked for, and the libraries that they use when they are opened: most
projects have no bridge.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from headwater import plugins
from headwater.edges.bridges.contract import Bridge, End, Inbound, Outbound
from headwater.errors import HeadwaterError, nearest
from headwater.secrets import expand
from headwater.value_forms import WHOLE_MOST, is_number, is_topic, is_whole, without_secrets

TOPIC = "topic:"
BEGINNING, END = STARTS = ("beginning", "end")
ONCE = "message-id"
GROUP = "headwater.bridge."
_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


class BadBridge(HeadwaterError):
    """A section that cannot be used, and was not checked before."""


@dataclass(frozen=True)
class Config:
    """A checked section. The address is as written: secrets are filled in when it is opened."""

    name: str
    topic: str
    kind: type[Bridge]
    end: End
    is_once: bool = False
    """In: what the source sends again under the same message id is stored once."""
    start: str = BEGINNING
    """Out: where a bridge begins that has no position yet."""

    @property
    def is_inbound(self) -> bool:
        return issubclass(self.kind, Inbound)

    @property
    def group(self) -> str:
        """Whose committed offsets are the position of a bridge out; also named in dead letters."""
        return GROUP + self.name

    @property
    def way(self) -> str:
        """For counters."""
        return self.end.scheme or "bridge"

    def opened(self, **more: Any) -> Bridge:
        """The bridge itself, not yet connected, with ${…} of its settings filled in."""
        options = {
            name: expand(value) if isinstance(value, str) else value
            for name, value in self.end.options.items()
        }
        return self.kind(
            replace(self.end, address=expand(self.end.address), options=options, **more)
        )


def check(name: str, section: Mapping[str, Any]) -> list[str]:
    """A sentence for each mistake; `read` takes a section without any."""
    said = [] if _NAME.fullmatch(name) else [f"{name!r}: use up to 60 letters, digits, - and _"]
    sides = [side for side in ("from", "to") if not isinstance(section.get(side), str)]
    if sides:
        said += [f'lacks {side} = "…": a topic:NAME or an address' for side in sides]
        return said
    topics = [side for side in ("from", "to") if section[side].startswith(TOPIC)]
    if len(topics) != 1:
        return [*said, 'has two ends: one of `from` and `to` is "topic:NAME", the other is not']
    topic = section[topics[0]].removeprefix(TOPIC)
    if not is_topic(topic):
        said.append(f"{topic!r} is no name of a topic")
    try:
        kind, address = _kind(section)
    except HeadwaterError as error:
        return [*said, f"{error.sentence} ({error.hint})"]
    return said + _settings(name, section, kind, address)


def read(name: str, section: Mapping[str, Any]) -> Config:
    """Raises BadBridge with every mistake."""
    said = check(name, section)
    if said:
        raise BadBridge(f"bridge {name}: " + "; ".join(said))
    kind, address = _kind(section)
    side = "to" if issubclass(kind, Inbound) else "from"
    topic = section[side].removeprefix(TOPIC)
    given = {key: value for key, value in section.items() if key not in _common(kind)}
    end = End(name, address, {**kind.OPTIONS, **given}, topic=topic)
    start = section.get("start", BEGINNING)
    return Config(name, topic, kind, end, is_once=section.get("once") == ONCE, start=start)


def _kind(section: Mapping[str, Any]) -> tuple[type[Bridge], str]:
    if section["to"].startswith(TOPIC):
        return inbound(section["from"]), section["from"]
    return outbound(section["to"]), section["to"]


def _common(kind: type[Bridge]) -> tuple[str, ...]:
    return ("from", "to", "once") if issubclass(kind, Inbound) else ("from", "to", "start")


def _settings(name: str, section: Mapping[str, Any], kind: type[Bridge], address: str) -> list[str]:
    common, said, good = _common(kind), [], dict(kind.OPTIONS)
    for key, value in section.items():
        if key in common:
            continue
        if key not in kind.OPTIONS:
            said.append(f"has no setting {key!r}{nearest(key, [*common, *kind.OPTIONS])}")
        elif not _fits(value, kind.OPTIONS[key]):
            said.append(f"{key} = {value!r} is not of the kind of {kind.OPTIONS[key]!r}")
        else:
            good[key] = value
    if section.get("once", ONCE) != ONCE:
        said.append(f'once = {section["once"]!r}: the only way is once = "{ONCE}"')
    if section.get("start", BEGINNING) not in STARTS:
        said.append(f'start = {section["start"]!r} is neither "beginning" nor "end"')
    if said:
        return said
    return kind.check(End(name, without_secrets(address), good))


def _fits(value: object, default: object) -> bool:
    if default is None or isinstance(default, str):
        return isinstance(value, str) and value.isprintable()
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return is_number(value, -WHOLE_MOST)
    if isinstance(default, int):
        return is_whole(value, -WHOLE_MOST, 2**63 - 1)
    return isinstance(value, type(default))


INBOUND: Mapping[str, str] = {
    "amqp": "headwater.edges.bridges.amqp:Queue",
    "amqps": "headwater.edges.bridges.amqp:Queue",
    "mqtt": "headwater.edges.bridges.mqtt:Subscription",
    "mqtts": "headwater.edges.bridges.mqtt:Subscription",
    "multicast": "headwater.edges.multicast.bridge:Listener",
    "statsd": "headwater.edges.udp.bridge:StatsD",
    "udp": "headwater.edges.udp.bridge:Datagrams",
    "zmq+pull": "headwater.edges.bridges.zeromq:Pull",
    "zmq+sub": "headwater.edges.bridges.zeromq:Sub",
}
OUTBOUND: Mapping[str, str] = {
    "amqp": "headwater.edges.bridges.amqp:Exchange",
    "amqps": "headwater.edges.bridges.amqp:Exchange",
    "mqtt": "headwater.edges.bridges.mqtt:Publication",
    "mqtts": "headwater.edges.bridges.mqtt:Publication",
    "multicast": "headwater.edges.multicast.bridge:Speaker",
    "zmq+pub": "headwater.edges.bridges.zeromq:Pub",
    "zmq+push": "headwater.edges.bridges.zeromq:Push",
}
GROUPS = {Inbound: plugins.BRIDGES_IN, Outbound: plugins.BRIDGES_OUT}
_OWN = {Inbound: INBOUND, Outbound: OUTBOUND}

B = TypeVar("B", bound=Bridge)


class NoSuchBridge(HeadwaterError):
    """Nobody knows what the address means."""


def inbound(address: str) -> type[Inbound]:
    return _found(Inbound, address)  # type: ignore[type-abstract]


def outbound(address: str) -> type[Outbound]:
    return _found(Outbound, address)  # type: ignore[type-abstract]


def _found(way: type[B], address: str) -> type[B]:
    scheme, is_url, _ = address.partition("://")
    place = _place(way, scheme.lower()) if is_url else address
    module, _, name = place.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise NoSuchBridge(
            f"{place} cannot be imported ({error})",
            hint="a bridge of your own is named as module:Class, beside headwater.toml",
        ) from error
    if not (isinstance(found, type) and issubclass(found, way)):
        raise NoSuchBridge(
            f"{place} is no class made from headwater.edges.{way.__name__}",
            hint="see docs/bridges.md",
        )
    return found


def _place(way: type[Bridge], scheme: str) -> str:
    own = _OWN[way].get(scheme)
    if own is not None:
        return own
    offer = plugins.offer(GROUPS[way], scheme)
    if offer is not None:
        return offer.place
    known = ", ".join(f"{each}://" for each in sorted({*_OWN[way], *plugins.offered(GROUPS[way])}))
    side = "from" if way is Inbound else "to"
    raise NoSuchBridge(
        f"no bridge goes {side} {scheme}://",
        hint=f"write one of {known}, or module:Class of your own",
    )
