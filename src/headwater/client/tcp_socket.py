"""The socket under a connection: how long it may take to be there, and how a peer that died is noticed.

Called by `connection`. A machine that lost its power answers nothing, neither to a connection that is made
nor on one that there is. So making one has a time of its own (`socket.connection.setup.timeout.ms`, 10 s as
in Kafka's own clients), which is shorter than a request may take, and one that is silent is probed.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping

from headwater.client.errors import LoginRefused

_SETUP = "socket.connection.setup.timeout.ms"
_SETUP_MS = 10_000
_PROBES = {"TCP_KEEPIDLE": 5, "TCP_KEEPALIVE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 3}
"""Seconds of silence before the first, by two names; between two; and how many may stay unanswered."""


class Disconnected(Exception):
    """The connection broke, or never was; another attempt may succeed."""


def seconds(settings: Mapping[str, str], name: str, default_ms: int) -> float:
    """A setting in milliseconds; what is no number is as if it were not there."""
    value = settings.get(name, str(default_ms))
    return int(value) / 1000 if value.isdigit() else default_ms / 1000


def connected(
    address: tuple[str, int],
    settings: Mapping[str, str],
    context: ssl.SSLContext | None,
    timeout_s: float,
) -> socket.socket:
    """`timeout_s`: how long one read from it may take."""
    setup_s = min(timeout_s, seconds(settings, _SETUP, _SETUP_MS))
    try:
        plain = socket.create_connection(address, timeout=setup_s)
    except OSError as error:
        raise Disconnected(f"{address[0]}:{address[1]}: {error}") from error
    plain.settimeout(timeout_s)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if (option := getattr(socket, name, None)) is not None:
            plain.setsockopt(socket.IPPROTO_TCP, option, value)
    return plain if context is None else _secured(plain, address, context)


def _secured(
    plain: socket.socket, address: tuple[str, int], context: ssl.SSLContext
) -> socket.socket:
    try:
        return context.wrap_socket(plain, server_hostname=address[0])
    except ssl.SSLCertVerificationError as error:
        plain.close()
        raise LoginRefused(
            f"The certificate of {address[0]}:{address[1]} is not trusted: {error.verify_message}.",
            hint="Set kafka.ssl.ca.location to the authority that signed it.",
        ) from None
    except OSError as error:
        plain.close()
        if isinstance(error, ssl.SSLError):
            raise LoginRefused(
                f"{address[0]}:{address[1]} does not agree on TLS: {error.reason or error}.",
                hint="Check kafka.security.protocol, and whether it asks for a certificate.",
            ) from None
        raise Disconnected(f"{address[0]}:{address[1]}: {error}") from error
