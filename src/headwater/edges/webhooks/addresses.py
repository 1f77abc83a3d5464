"""Which addresses may be called: none of the inner network, unless that is wanted (SSRF).

Called by `poster` for every new connection, with the addresses that a name has at that moment; the
connection then goes to one of these and to no other, so that a name cannot mean one thing when it is looked
at and another when it is called. If one of a name's addresses may not be called, none is.

    always refused               multicast, unspecified, reserved, link-local, clouds' metadata services
    unless `allow_private`       loopback, private networks, everything else that is not on the Internet

What is on the Internet, IANA's registries of special-purpose addresses say (RFC 6890), as written down here
and not as this version of Python has them: 192.0.0.0/24 was missing there. An address that stands for another
(mapped, NAT64, 6to4, Teredo) is refused also where that one is.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from urllib.parse import urlsplit

from headwater.errors import HeadwaterError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_IPV4_AT_THE_END = tuple(map(ipaddress.ip_network, (str(_NAT64), "::/96", "::ffff:0:0:0/96")))
"""NAT64, what RFC 4291 calls compatible (::127.0.0.1), and RFC 2765 translated (::ffff:0:127.0.0.1)."""
_ISATAP = 0x5EFE
"""RFC 5214: with the bit for an address that is nobody else's or without, before the IPv4 address."""
_OWN_NAT64 = ipaddress.ip_network("64:ff9b:1::/48")
"""RFC 8215: a network's own translators, each with its own place for the IPv4 address."""
_METADATA = tuple(
    map(
        ipaddress.ip_network,
        (
            "169.254.169.254",
            "168.63.129.16",  # Azure
            "100.100.100.200",  # Alibaba
            "192.0.0.192",  # Oracle, at a customer's
            "fd00:ec2::/32",  # Amazon: instances ::254, pods ::23, names, time
            "fd20:ce::254",  # Google
            "fd00:c1::a9fe:a9fe",  # Oracle
            "fd00:42::42",  # Scaleway
            "fd00:a9fe:a9fe::1",  # Akamai
            "fd00:100::100:200",  # Alibaba
        ),
    )
)
"""Services of clouds for their own machines, which give secrets to whoever asks from inside; those at other
link-local addresses are never called either."""
_SPECIAL = tuple(
    map(
        ipaddress.ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
            *(
                "172.16.0.0/12",
                "192.0.0.0/24",
                "192.0.2.0/24",
                "192.31.196.0/24",
                "192.52.193.0/24",
            ),
            *("192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15"),
            *("198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4"),
            *("2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20"),
        ),
    )
)
"""IANA's registries for IPv4 and, of what is within 2000::/3, for IPv6; also what all may reach of them, as
relays and sinks of names: nobody receives webhooks there."""
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")
"""Everything else of IPv6 is not given to anybody (RFC 4291), but for the way to IPv4."""
LOOK_UPS_MAX = 256


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
        if any(each in network for network in _METADATA):
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
    if any(address in network for network in _SPECIAL):
        return "private"
    is_outer = address.version == 4 or address in _GLOBAL_UNICAST or address in _NAT64
    return None if is_outer else "private"


def _inside(address: Address) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that a way through IPv6 would lead to."""
    if isinstance(address, ipaddress.IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _IPV4_AT_THE_END):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if int(address) >> 32 & 0xFDFFFFFF == _ISATAP:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


class LookUps:
    """Names to addresses, in threads of their own: one for each name, and so many at once.

    A look-up cannot be cut off, and whoever names a receiver may have a name server that never answers: in
    the threads that the whole process shares a few of them would hold up everything else.
    """

    def __init__(self, at_once_max: int = LOOK_UPS_MAX) -> None:
        self._most = at_once_max
        self._pending: dict[str, Future[list[str]]] = {}
        self._turn = threading.Lock()

    async def find(self, host: str) -> list[str]:
        """Whoever asks for the same name meanwhile waits with us. Raises OSError, UnicodeError."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()

        def hand_over() -> None:
            if not waiting.done():
                waiting.set_result(None)

        def done(_: Future[list[str]]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(hand_over)

        found = self._begun(host)
        found.add_done_callback(done)
        await waiting
        return found.result()

    def _begun(self, host: str) -> Future[list[str]]:
        with self._turn:
            found = self._pending.get(host)
            if found is not None:
                return found
            if len(self._pending) >= self._most:
                raise OSError("too many names are being looked up")
            found = self._pending[host] = Future()
        threading.Thread(
            target=self._run, args=(host, found), name="webhook look-up", daemon=True
        ).start()
        return found

    def _run(self, host: str, found: Future[list[str]]) -> None:
        addresses: list[str] = []
        failure: Exception | None = None
        try:
            got = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(str(each[4][0]) for each in got))
        except (OSError, ValueError) as error:
            failure = error
        finally:
            with self._turn:
                del self._pending[host]
        if failure is None:
            found.set_result(addresses)
        else:
            found.set_exception(failure)


_look_ups = LookUps()


async def resolved(host: str, *, allow_private: bool) -> Sequence[str]:
    """The addresses to connect to, all of which may be called."""
    try:
        addresses = await _look_ups.find(host)
    except (OSError, UnicodeError) as error:
        raise NameUnknown(f"{host} has no address: {error}") from None
    for each in addresses:
        if (why := refusal(each, allow_private=allow_private)) is not None:
            raise AddressRefused(f"{host}: {why}", hint="see allow_private in docs/webhooks.md")
    return addresses


def url_complaint(url: str, *, allow_private: bool) -> str | None:
    """What is wrong with where a webhook is to go, as far as the text alone tells."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
    except ValueError:  # its words may hold a piece of what is secret
        return f"{url!r} is no address"
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
