"""What a run gave: a rate, and how long one command took."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Commands:
    count: int
    seconds: float
    times: list[float]

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    def at(self, share: float) -> float:
        """How long the quickest share of the commands took at most, in ms."""
        ordered = sorted(self.times)
        return ordered[int(len(ordered) * share)] * 1e3

    def line(self) -> str:
        return f"{self.rate:>9,.0f} commands/s  p50 {self.at(0.5):6.2f} ms  p99 {self.at(0.99):6.2f} ms"

    def figures(self) -> dict[str, list[float]]:
        return {"per_s": [self.rate], "p50_ms": [self.at(0.5)], "p99_ms": [self.at(0.99)]}


@dataclass(frozen=True)
class Events:
    count: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    def line(self) -> str:
        return f"{self.count:>9,} events in {self.seconds:6.3f} s  {self.rate:>11,.0f} events/s"

    def figures(self) -> dict[str, list[float]]:
        return {"per_s": [self.rate], "seconds": [self.seconds]}
