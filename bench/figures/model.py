"""What a figure is, whichever benchmark it comes from: rows of one measure, each with its contestants."""

from __future__ import annotations

from dataclasses import dataclass, field

OURS = "headwater"


@dataclass(frozen=True)
class Bar:
    """One contestant's figure; `spread` is the lowest and highest of its rounds."""

    who: str
    value: float
    ours: bool
    spread: tuple[float, float] | None = None


@dataclass(frozen=True)
class Group:
    """Contestants side by side. The first that is not ours is what the ratio is taken to."""

    label: str
    bars: tuple[Bar, ...]
    target: str = ""
    verdict: str = ""
    bound: str = ""

    @property
    def peer(self) -> Bar | None:
        return next((bar for bar in self.bars if not bar.ours), None)

    @property
    def ratio(self) -> float | None:
        """Ours over the peer's, where there is one of each."""
        ours = next((bar for bar in self.bars if bar.ours), None)
        return ours.value / self.peer.value if ours and self.peer and self.peer.value else None


@dataclass(frozen=True)
class Figure:
    """One plot with its table."""

    name: str
    title: str
    unit: str
    more_is_better: bool
    groups: tuple[Group, ...]
    detail: str = ""


@dataclass(frozen=True)
class Chapter:
    """One results file."""

    title: str
    file: str
    command: str
    about: tuple[str, ...]
    machine: tuple[tuple[str, str], ...]
    figures: tuple[Figure, ...] = field(default=())


def number(value: float) -> str:
    """Three digits, with the words that people use for the rest."""
    if value >= 999_500:
        return f"{value / 1e6:.3g} million"
    if value >= 10_000:
        return f"{value / 1e3:.3g} thousand"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
