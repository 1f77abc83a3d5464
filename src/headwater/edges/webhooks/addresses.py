"""Which addresses may be called: none of the inner network, unless that is wanted (SSRF).

Called by `poster` for every new connection, with the addresses that a name has at that moment; the
connection then goes to one of these and to no other, so that a name cannot mean one thing when it is looked
at and another when it is called. If one of a name's addresses may not be called, none is.

    always refused               multicast, unspecified, reserved, link-local, clouds' metadata services
    unless `allow_private`       loopback, private networks, everything else that is not on the Internet
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Sequence
from urllib.parse import urlsplit

from headwater.errors import HeadwaterError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_IPV4_AT_THE_END = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("::/96"))
"""NAT64, and what RFC 4291 calls compatible: ::127.0.0.1."""
_OWN_NAT64 = ipaddress.ip_network("64:ff9b:1::/48")
"""RFC 8215: a network's own translators, each with its own place for the IPv4 address."""
_METADATA = frozenset(
    map(
        ipaddress.ip_address,
        ("169.254.169.254", "168.63.129.16", "100.100.100.200", "fd00:ec2::254"),
    )
)
"""Services of clouds for their own machines, which give secrets to whoever asks from inside."""


class AddressRefused(HeadwaterError):
    """Nothing was sent: the address is not one to call."""


class NameUnknown(HeadwaterError):
    """Nothing was sent: the name has no address at the moment."""


def refusal(text: str, *, allow_private: bool) -> str | None:
    """Why an address may not be called; None if it may."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return f"{text} is no address"
    for each in (address, *_inside(address)):
        kind = _kind(each)
        if each in _METADATA:
            return f"{text} is a cloud's own service, and these are never called"
        if kind in ("multicast", "unspecified", "reserved", "link-local"):
            return f"{text} is a {kind} address, and these are never called"
        if kind is not None and not allow_private:
            return f"{text} is a {kind} address, and allow_private is not set"
    return None


def _kind(address: Address) -> str | None:
    """None for one on the Internet."""
    if address.is_multicast:
        return "multicast"
    if address.is_unspecified:
        return "unspecified"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    is_reserved = isinstance(address, ipaddress.IPv4Address) and address.is_reserved
    if is_reserved or address in _OWN_NAT64:
        return "reserved"
    is_old_private = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    return None if address.is_global and not is_old_private else "private"


def _inside(address: Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that a way through IPv6 would lead to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _IPV4_AT_THE_END):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


async def resolved(host: str, port: int, *, allow_private: bool) -> Sequence[str]:
    """The addresses to connect to, all of which may be called."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NameUnknown(f"{host} has no address: {error}") from None
    addresses = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    for each in addresses:
        if (why := refusal(each, allow_private=allow_private)) is not None:
            raise AddressRefused(f"{host}: {why}", hint="see allow_private in docs/webhooks.md")
    return addresses


def url_complaint(url: str, *, allow_private: bool) -> str | None:
    """What is wrong with where a webhook is to go, as far as the text alone tells."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError as error:
        return f"{url!r} is no address: {error}"
    if parts.scheme not in ("http", "https") or not host:
        return f"{url!r} is no https://HOST/PATH"
    if parts.username is not None or parts.password is not None:
        return "a name and password do not belong into the address: receivers check the signature"
    if parts.fragment:
        return f"{url!r} has a #fragment, which is never sent"
    if parts.scheme == "http" and not allow_private:
        return "http:// is for inner networks, with allow_private = true; use https://"
    if host.replace(".", "").isdigit() or ":" in host:
        return refusal(host, allow_private=allow_private)
    return None
