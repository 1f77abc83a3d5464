"""Real sockets that lose: what is sent through one of these is dropped, repeated or held back, by a seed."""

from __future__ import annotations

import random
import socket
from typing import Any

from headwater.edges.bridges.contract import BridgeBroken
from headwater.edges.multicast import sockets
from headwater.edges.multicast.addresses import Group, group_of
from headwater.project.ports import free_port
from tests.compat.missing import CANNOT, skip_or_fail
from tests.edges.multicast.lossy import Weather


class LossySocket(socket.socket):
    """Only `sendto` is lossy; `delay_s` of the weather is ignored: one packet is swapped with the next."""

    def prepare(self, seed: int, weather: Weather) -> LossySocket:
        self._random, self._weather = random.Random(seed), weather
        self._held: tuple[bytes, Any] | None = None
        self.dropped = 0
        return self

    def sendto(self, packet: Any, to: Any, *_: Any) -> int:  # type: ignore[override]
        dice = self._random.random
        if dice() < self._weather.drop:
            self.dropped += 1
        elif self._held is None and dice() < self._weather.delay_s:
            self._held = (packet, to)
        else:
            for _ in range(1 + (dice() < self._weather.duplicate)):
                super().sendto(packet, to)
            if self._held is not None:
                held, self._held = self._held, None
                super().sendto(*held)
        return len(packet)


def lossy(made: socket.socket, seed: int, weather: Weather) -> LossySocket:
    family, kind = made.family, made.type
    found = LossySocket(family, kind, fileno=made.detach())
    found.setblocking(False)
    return found.prepare(seed, weather)


def options(**more: Any) -> dict[str, Any]:
    return {"interface": "127.0.0.1", "secret": None, "allow_from": [], **more}


def group(**more: Any) -> Group:
    """One of its own, on loopback."""
    return group_of(f"239.255.77.1:{free_port()}", options(**more))


def multicast_or_skip() -> None:
    """A packet to a group must come back over loopback."""
    here = group()
    try:
        with sockets.hearing(here, 65_536) as hearing, sockets.speaking(here) as speaking:
            speaking.sendto(b"anybody?", here.place)
            hearing.settimeout(5)
            assert hearing.recv(100) == b"anybody?"
    except (OSError, BridgeBroken) as error:
        skip_or_fail(f"multicast {CANNOT}: {error}; recovery is not tried with sockets")
