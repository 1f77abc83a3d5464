"""The sender's side of a session: numbers, holds, answers. Pure: the time is handed in, `speaker` sends.

Invariants:
- What was sent must stay available for `hold_s` seconds at least: where the buffer is full of younger
  packets, nothing new is taken (`wait_s`), so the rate is at most `held_bytes_max / hold_s`.
- At most `repair_bytes_per_s` go into answers, and ASKED_MAX packets into one: an ask is small, and may come
  from somebody who only wants to see us busy.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from headwater.edges.memory_share import SHARE
from headwater.edges.multicast.packets import (
    ASKED_MAX,
    NO_STAMP,
    PACKET_BYTES_MAX,
    Ask,
    Data,
    Heartbeat,
    Message,
    Ranges,
    Stamp,
    encode,
)
from headwater.edges.multicast.replay_window import Stamps

REPAIR_BURST_S = 0.25


@dataclass(frozen=True)
class Holding:
    """What a sender may use up."""

    held_bytes_max: int = 64 * 1024**2
    hold_s: float = 2.0
    packet_bytes_max: int = PACKET_BYTES_MAX
    repair_bytes_per_s: float = 16 * 1024**2
    secret: bytes = b""


class Sender:
    """One session: from a start of the sender to its end."""

    def __init__(
        self, session: int, holding: Holding, previous: Ranges = (), stamps: Stamps | None = None
    ) -> None:
        self.session = session
        self._stamps = stamps
        self._previous = previous
        self.last = 0
        self.oldest = 1
        self.repaired = 0
        self.expired = 0
        """Asked for when it was no longer held."""
        self._holding = holding
        self._held: dict[int, tuple[bytes, float]] = {}
        self._held_bytes = 0
        self._repair_bytes = holding.repair_bytes_per_s * REPAIR_BURST_S
        self._repair_at = self._shared_at = float("-inf")
        self._repaired_of: Counter[str] = Counter()
        """Bytes of the last moments, by who asked."""

    def wait_s(self, size: int, now: float) -> float:
        """How long to wait before a message of `size` bytes may be taken; 0: not at all."""
        excess = self._held_bytes + size - self._holding.held_bytes_max
        if excess <= 0 or not self._held:
            return 0.0
        freed, until = 0, now
        for packet, sent_at in self._held.values():
            freed, until = freed + len(packet), sent_at + self._holding.hold_s
            if freed >= excess:
                break
        return max(0.0, until - now)

    def take(self, message: Message, now: float) -> bytes:
        """The packet to send. Raises TooLarge, and no number is used up."""
        sequence = self.last + 1
        data = Data(self.session, sequence, self.oldest, message, self._stamp())
        packet = encode(data, self._holding.secret, self._holding.packet_bytes_max)
        self.last = sequence
        self._held[sequence] = (packet, now)
        self._held_bytes += len(packet)
        while self._held_bytes > self._holding.held_bytes_max and self.oldest < sequence:
            self._held_bytes -= len(self._held.pop(self.oldest)[0])
            self.oldest += 1
        return packet

    def heartbeat(self, ends: bool = False) -> bytes:
        beat = Heartbeat(self.session, self.last, self.oldest, ends, self._previous, self._stamp())
        return encode(beat, self._holding.secret)

    def asked(self, ask: Ask, now: float, host: str = "") -> list[bytes]:
        """What to send to the one who asked; what is left out for now will be asked for again. Nobody is
        sent more than `SHARE` times what is left for all others."""
        if ask.session != self.session:
            return []
        answers: list[bytes] = []
        left = ASKED_MAX
        is_gone = False
        allowance = self._allowance(now)
        for first, last in ask.ranges:
            is_gone |= first < self.oldest
            self.expired += max(0, min(last + 1, self.oldest) - first)
            for sequence in range(max(first, self.oldest), min(last, self.last) + 1):
                packet = self._held[sequence][0]
                if not left or not self._may_have(host, len(packet), allowance):
                    break
                answers.append(packet)
                left -= 1
                allowance -= len(packet)
                self._repaired_of[host] += len(packet)
        self._repair_bytes = allowance
        self.repaired += len(answers)
        if is_gone:
            answers.insert(0, self.heartbeat())  # its `oldest` says that nobody need ask again
        return answers

    def _may_have(self, host: str, size: int, allowance: float) -> bool:
        """The first packet of a moment, where there is room; more where that leaves some for others."""
        before = self._repaired_of[host]
        return size <= allowance and (not before or before + size <= SHARE * (allowance - size))

    def _stamp(self) -> Stamp:
        return NO_STAMP if self._stamps is None else self._stamps.next()

    def _allowance(self, now: float) -> float:
        rate = self._holding.repair_bytes_per_s
        if now - self._shared_at >= REPAIR_BURST_S:
            self._shared_at = now
            self._repaired_of.clear()
        earned = max(0.0, now - self._repair_at) * rate
        self._repair_at = now
        return min(rate * REPAIR_BURST_S, self._repair_bytes + earned)
