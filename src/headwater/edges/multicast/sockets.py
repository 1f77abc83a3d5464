"""The sockets of a sender and of a receiver, as the kernel is asked for them."""

from __future__ import annotations

import socket
from collections.abc import Callable

from headwater.edges.bridges.contract import BridgeBroken
from headwater.edges.multicast.addresses import Group
from headwater.edges.udp.sockets import enlarge

BUFFER_BYTES = 8 * 1024**2
Made = Callable[[socket.socket], None]


def speaking(group: Group) -> socket.socket:
    """Sends to the group and, from the same address, repairs to single receivers; hears who asks."""

    def prepare(made: socket.socket) -> None:
        interface = socket.inet_aton(group.interface)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, group.ttl)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER_BYTES)
        made.bind((group.interface, 0))

    return _made(group, prepare)


def hearing(group: Group, buffer_bytes: int) -> socket.socket:
    """Hears what is sent to the group, and nothing else that comes to its port."""

    def prepare(made: socket.socket) -> None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # several may listen
        enlarge(made, buffer_bytes)
        made.bind(group.place)
        member = socket.inet_aton(group.host) + socket.inet_aton(group.interface)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)

    return _made(group, prepare)


def asking(group: Group, buffer_bytes: int) -> socket.socket:
    """Asks senders, and hears their repairs."""

    def prepare(made: socket.socket) -> None:
        enlarge(made, buffer_bytes)
        made.bind((group.interface, 0))

    return _made(group, prepare)


def _made(group: Group, prepare: Made) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        prepare(made)
    except OSError as error:
        made.close()
        raise BridgeBroken(
            f"no multicast to {group.host}:{group.port} through {group.interface}: {error.strerror}",
            hint="is `interface` an address of this machine, and may it do multicast?",
        ) from error
    return made
