"""Where the broker listens, and how each of these addresses is protected.

The broker reads `listeners`, `advertised.listeners` and `listener.security.protocol.map` here, as
Kafka writes them, or makes one plain listener of `--listen`:

    listeners                       NAME://HOST:PORT, …       no host: all addresses
    advertised.listeners            NAME://HOST:PORT, …       what Metadata tells clients of NAME
    listener.security.protocol.map  NAME:PROTOCOL, …          a protocol's own name needs no entry
    listener.name.NAME.SETTING      a setting for one listener only

    PROTOCOL         bytes are    a client is
    PLAINTEXT        open         User:ANONYMOUS
    SSL              encrypted    its certificate's subject, where it shows one
    SASL_PLAINTEXT   open         who it logs in as
    SASL_SSL         encrypted    who it logs in as

A listener whose clients need not prove who they are must be on loopback, unless somebody says that it
is meant so (`--insecure`).
"""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headwater.broker.security.login import Policy
from headwater.broker.security.plain import PLAIN
from headwater.broker.security.principal import PrincipalRules
from headwater.broker.settings import Settings
from headwater.errors import HeadwaterError, nearest

logger = logging.getLogger("headwater.security")

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class BadListener(HeadwaterError):
    """An address that cannot be used, or must not be."""


@dataclass(slots=True)
class Listener:
    """One address. `port` is the real one once it is bound."""

    name: str
    protocol: str
    host: str
    port: int
    advertised: tuple[str, int] | None = None
    policy: Policy | None = None
    """How clients log in; None: they do not."""
    rules: PrincipalRules | None = None
    """From certificates to names; None without TLS."""
    demands_certificate: bool = False
    sockets: list[socket.socket] = field(default_factory=list)

    @property
    def encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def logs_in(self) -> bool:
        return self.protocol.startswith("SASL_")

    @property
    def authenticated(self) -> bool:
        """Whether nobody gets in without having proved who they are."""
        return self.logs_in or self.demands_certificate

    @property
    def address(self) -> tuple[str, int]:
        """What clients are told, unless they have come by a better one: see `address_for`."""
        return self.advertised or (self.host or "localhost", self.port)

    def address_for(self, reached: str) -> tuple[str, int]:
        """What a client is told that came to our address `reached`: where we listen on all of them,
        that one works for this client."""
        if self.advertised is None and self.host in ("", "0.0.0.0", "::"):
            return reached.removeprefix("::ffff:"), self.port
        return self.address

    @property
    def bootstrap(self) -> str:
        host = self.host or "localhost"
        return f"{host if ':' not in host else f'[{host}]'}:{self.port}"


def from_settings(settings: Settings) -> list[Listener]:
    """The listeners that the settings ask for. Raises `BadListener`."""
    protocols = _protocol_map(settings.get("listener.security.protocol.map"))
    controllers = {*(settings.get("controller.listener.names") or ()), "CONTROLLER"}
    told = dict(_addresses("advertised.listeners", settings.get("advertised.listeners") or ()))
    found = []
    for name, (host, port) in _addresses("listeners", settings.get("listeners")):
        if name in controllers:  # one process has no controller to talk to
            continue
        if name not in protocols:
            raise BadListener(
                f"the listener {name} has no security protocol{nearest(name, protocols)}",
                hint=f"add {name}:SASL_SSL (or another) to listener.security.protocol.map",
            )
        found.append(Listener(name, protocols[name], host, port, told.get(name)))
    _check(found, set(told) - controllers)
    return found


def single(listen: str, advertise: str | None) -> list[Listener]:
    """One plain listener: `--listen HOST:PORT`."""
    told = address(advertise) if advertise else None
    return [Listener("PLAINTEXT", "PLAINTEXT", *address(listen), told)]


def address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise BadListener(f"{text!r} is not HOST:PORT, for example 127.0.0.1:9092.")
    return host.strip("[]"), int(port)


def _addresses(setting: str, listeners: Iterable[str]) -> list[tuple[str, tuple[str, int]]]:
    found = []
    for text in listeners:
        name, separator, rest = text.strip().partition("://")
        host, colon, port = rest.rpartition(":")
        if not (separator and name and colon and port.isdigit() and int(port) <= 65535):
            raise BadListener(
                f"{setting} is not NAME://HOST:PORT but {text.strip()!r}",
                hint="write, for example, PLAINTEXT://127.0.0.1:9092",
            )
        found.append((name.upper(), (host.strip("[]"), int(port))))
    return found


def _protocol_map(text: str) -> dict[str, str]:
    found = {protocol: protocol for protocol in PROTOCOLS}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = entry.partition(":")
        if protocol.upper() not in PROTOCOLS:
            raise BadListener(
                f"listener.security.protocol.map gives {name} the protocol {protocol!r}",
                hint=f"use one of {', '.join(PROTOCOLS)}",
            )
        found[name.strip().upper()] = protocol.strip().upper()
    return found


def _check(listeners: Sequence[Listener], told: set[str]) -> None:
    names = [listener.name for listener in listeners]
    if not names:
        raise BadListener(
            "listeners has no listener for clients", hint="add PLAINTEXT://127.0.0.1:9092"
        )
    if len(set(names)) < len(names):
        raise BadListener(
            "listeners uses a name twice",
            hint="give each its own, and say in listener.security.protocol.map what it means",
        )
    for name in sorted(told - set(names)):
        raise BadListener(
            f"advertised.listeners names {name}, which listeners does not have",
            hint="both must use the same names",
        )


# ---- sockets ---------------------------------------------------------------------------------------


def bind(listener: Listener) -> None:
    """Take the address, without yet accepting anybody. Raises `BadListener`."""
    try:
        infos = socket.getaddrinfo(
            listener.host or None,
            listener.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
        for family, kind, number, _, where in dict.fromkeys(infos):
            if listener.sockets and listener.port == 0:
                where = (where[0], listener.sockets[0].getsockname()[1], *where[2:])
            listener.sockets.append(_bound(family, kind, number, where))
    except OSError as error:
        release(listener)
        raise BadListener(
            f"cannot listen on {listener.host}:{listener.port}: {error.strerror or error}.",
            hint="Choose another address with --listen; port 0 takes a free one.",
        ) from error
    listener.port = listener.sockets[0].getsockname()[1]


def _bound(family: int, kind: int, number: int, where: Any) -> socket.socket:
    made = socket.socket(family, kind, number)
    try:
        made.setblocking(False)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(where)
    except OSError:
        made.close()
        raise
    return made


def release(listener: Listener) -> None:
    for each in listener.sockets:
        each.close()
    listener.sockets.clear()


def check_exposure(listeners: Iterable[Listener], insecure: bool) -> None:
    """Refuse what anybody on the network could use; raises `BadListener`."""
    for listener in listeners:
        if listener.authenticated or not _is_open(listener):
            continue
        if not insecure:
            raise BadListener(
                f"{listener.name} on {listener.host or 'all addresses'} would let anybody who can "
                "reach this machine read, write and delete everything",
                hint="listen on 127.0.0.1, or use SASL_SSL (docs/security.md), "
                "or say --insecure if this is meant",
            )
        logger.warning(
            "%s://%s:%d asks nobody who they are: everybody who reaches this address may read, "
            "write and delete everything (--insecure)",
            listener.name,
            listener.host,
            listener.port,
        )
    for listener in listeners:
        if listener.protocol == "SASL_PLAINTEXT" and _is_open(listener):
            logger.warning(
                "%s://%s:%d is not encrypted: everybody on the way can read the records%s",
                listener.name,
                listener.host,
                listener.port,
                " and the passwords of PLAIN"
                if listener.policy is not None and PLAIN in listener.policy.mechanisms
                else "",
            )


def _is_open(listener: Listener) -> bool:
    """Whether anything but this machine reaches it."""
    return any(
        not ipaddress.ip_address(each.getsockname()[0].partition("%")[0]).is_loopback
        for each in listener.sockets
    )


def option(settings: Settings, listener: Listener, name: str) -> Any:
    """A setting, or what `listener.name.NAME.…` says instead of it for this listener."""
    own: Mapping[str, Any] = settings.of_listener(listener.name)
    return own[name] if name in own else settings.get(name)
