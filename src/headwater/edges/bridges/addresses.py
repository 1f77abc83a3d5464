"""Addresses with a host, a login and a path: `scheme://user:password@host:port/path`; pure.

Not `urllib`: in MQTT's topics `#` is a wildcard, not the beginning of a fragment, and `?` is a letter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from headwater.edges.bridges.contract import Record

_WORD = re.compile(r"\{(?:key|topic)\}")


@dataclass(frozen=True)
class Address:
    """What is left out is empty, or 0."""

    host: str
    port: int
    user: str
    password: str
    path: str

    @property
    def shown(self) -> str:
        """For people: without the password."""
        return f"{self.host}:{self.port}"


class BadAddress(ValueError):
    """One sentence about it."""


def parsed(place: str, port: int) -> Address:
    """`place`: what follows `scheme://`; `port`: where none is named."""
    authority, _, path = place.partition("/")
    login, _, where = authority.rpartition("@")
    user, _, password = login.partition(":")
    if where.startswith("["):  # an IPv6 address
        host, _, rest = where[1:].partition("]")
        number = rest.removeprefix(":")
    else:
        host, _, number = where.partition(":")
    if not host:
        raise BadAddress("names no host")
    if number and not (number.isdigit() and 0 < int(number) < 65536):
        raise BadAddress(f"has a port {number!r} that is none")
    return Address(host, int(number or port), unquote(user), unquote(password), path)


def filled(template: str, record: Record) -> str:
    """`{key}` and `{topic}` in an address or a routing key. UnicodeDecodeError where the key is no text."""
    if "{" not in template:
        return template
    words = {"{topic}": lambda: record.topic, "{key}": lambda: (record.key or b"").decode()}
    return _WORD.sub(lambda found: words[found[0]](), template)
