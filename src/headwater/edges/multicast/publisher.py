"""Messages to a multicast group from any Python program, without a log: as the bridge sends a topic's.

Called by users (`headwater.edges.MulticastPublisher`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from headwater.edges.multicast import sockets
from headwater.edges.multicast.addresses import LOOPBACK, group_of
from headwater.edges.multicast.packets import Message
from headwater.edges.multicast.sender import Holding
from headwater.edges.multicast.speaker import Speaking
from headwater.errors import HeadwaterError


class MulticastPublisher:
    """`async with MulticastPublisher("239.1.2.3:5004") as publisher: await publisher.send(b"…")`.

    `interface` is one of this machine's addresses; other than loopback it needs a `secret` that both sides
    know, or `allow_from`, the networks whose requests for lost packets are answered.
    """

    def __init__(
        self,
        group: str,
        *,
        interface: str = LOOPBACK,
        secret: str | None = None,
        allow_from: Sequence[str] = (),
        ttl: int = 1,
    ) -> None:
        said = {"interface": interface, "secret": secret, "allow_from": [*allow_from], "ttl": ttl}
        self._name, self._group = group, group_of(group, said)
        self._speaking: Speaking | None = None

    async def __aenter__(self) -> Self:
        holding = Holding(secret=self._group.secret)
        made = sockets.speaking(self._group)
        self._speaking = Speaking(self._name, self._group, made, holding)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stays until nobody has asked for half a second."""
        assert self._speaking is not None
        await self._speaking.close()

    async def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        timestamp_ms: int = 0,
    ) -> None:
        """Sent, and held for those who lack it, when this returns."""
        assert self._speaking is not None, "`async with` comes first"
        refused = await self._speaking.send([Message(value, key, tuple(headers), timestamp_ms)])
        if refused:
            raise HeadwaterError(refused[0][1], hint="send it in parts, or over TCP")
