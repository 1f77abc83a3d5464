"""Which class an address means.

    mqtt://…                  one of ours, or one that an installed package offers for the scheme:
                              entry points `headwater.bridges.in` and `headwater.bridges.out`
    package.module:Class      any class of the project's own, found beside headwater.toml

Classes are imported when they are asked for, and the libraries that they use when they are opened: most
projects have no bridge.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeVar

from headwater.edges.bridges.contract import Bridge, Inbound, Outbound
from headwater.errors import HeadwaterError

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
GROUPS = {Inbound: "headwater.bridges.in", Outbound: "headwater.bridges.out"}
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
            f"{place} is no class made from headwater.edges.bridges.contract.{way.__name__}",
            hint="see docs/bridges.md",
        )
    return found


def _place(way: type[Bridge], scheme: str) -> str:
    own = _OWN[way].get(scheme)
    if own is not None:
        return own
    offered = {each.name: each.value for each in entry_points(group=GROUPS[way])}
    if scheme in offered:
        return offered[scheme]
    side = "from" if way is Inbound else "to"
    raise NoSuchBridge(
        f"no bridge goes {side} {scheme}://",
        hint=f"known: {', '.join(sorted({*_OWN[way], *offered}))}, or module:Class of your own",
    )
