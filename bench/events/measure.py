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

    def line(self) -> str:
        ordered = sorted(self.times)
        middle, late = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        return (
            f"{self.rate:>9,.0f} commands/s  p50 {middle * 1e3:6.2f} ms  p99 {late * 1e3:6.2f} ms"
        )


@dataclass(frozen=True)
class Events:
    count: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.count / self.seconds

    def line(self) -> str:
        return f"{self.count:>9,} events in {self.seconds:6.3f} s  {self.rate:>11,.0f} events/s"
