"""Which sealed packets are somebody's now, and no copy of what was said before. Pure: clocks are handed in.

A seal says that a packet was made by somebody who knows the secret; not when, nor that who sends it is who
made it. So each packet also holds when it was made and from which address it goes out, both under the seal
(`Stamp`):

- Who hears a session for the first time believes it only if the packet is at most `FRESH_S` old by the clocks
  of both, and comes from where it says. From then on sequences tell copies apart.
- A sender answers an ask only if it is as fresh, comes from where it says, and is newer than the last one
  from there: so no copy of an ask makes it send anything, to whomever.

Without a secret anybody can make any packet, and nothing of this is looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from ipaddress import IPv4Address

from headwater.edges.multicast.packets import Stamp

FRESH_S = 30.0
"""How far the clocks of sender and receiver may be apart."""
SOURCES_MAX = 1024
Address = tuple[str, int]
Clock = Callable[[], float]


def origin_of(address: Address) -> int:
    """An address and a port as one number."""
    return int(IPv4Address(address[0])) << 16 | address[1]


class Stamps:
    """For the packets of one socket: each is later than the one before, whatever the clock does."""

    def __init__(self, address: Address, clock: Clock = time.time) -> None:
        self._origin = origin_of(address)
        self._clock = clock
        self._last_us = 0

    def next(self) -> Stamp:
        self._last_us = max(self._last_us + 1, int(self._clock() * 1_000_000))
        return Stamp(self._last_us, self._origin)


class ReplayWindow:
    """What was heard from whom."""

    def __init__(self, clock: Clock = time.time) -> None:
        self._clock = clock
        self._last_us: dict[Address, int] = {}

    def is_genuine(self, stamp: Stamp, source: Address) -> bool:
        """Whether it was made just now, there."""
        age_s = self._clock() - stamp.made_us / 1_000_000
        return abs(age_s) <= FRESH_S and stamp.origin == origin_of(source)

    def is_new(self, stamp: Stamp, source: Address) -> bool:
        """The same, and later than all before it from there."""
        if not self.is_genuine(stamp, source) or stamp.made_us <= self._last_us.get(source, 0):
            return False
        self._last_us.pop(source, None)
        self._last_us[source] = stamp.made_us  # at the end: the first is the one longest silent
        if len(self._last_us) > SOURCES_MAX:
            del self._last_us[next(iter(self._last_us))]
        return True
