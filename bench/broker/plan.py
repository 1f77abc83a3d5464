"""How much is measured: the sizes of a full run and of `--quick`, and the words for progress."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

PARTITIONS = 4
RECORD_SIZES = (100, 1000)


@dataclass(frozen=True)
class Plan:
    """Rounds alternate between the contestants; `*_mb` is payload written per round."""

    home: Path
    warm_up_s: float = 20.0
    rounds: int = 3
    raw_mb: int = 300
    batch_sizes: tuple[int, ...] = (16_384, 262_144)
    confluent_records: tuple[int, int] = (1_000_000, 300_000)
    java_rounds: int = 2
    java_records: tuple[int, int] = (2_000_000, 400_000)
    java_sizes: tuple[int, ...] = RECORD_SIZES
    latency_records: int = 5_000
    latency_rounds: int = 3
    starts: int = 5
    small_log_mb: int = 50
    large_log_mb: int = 2_000
    window_mb: int = 300
    growth_everywhere: bool = True


def quick(home: Path) -> Plan:
    """About a minute and a half: good for a first look, not for a claim."""
    return Plan(
        home=home,
        warm_up_s=8.0,
        rounds=2,
        raw_mb=100,
        batch_sizes=(16_384,),
        confluent_records=(200_000, 60_000),
        java_rounds=1,
        java_records=(300_000, 100_000),
        java_sizes=(100,),
        latency_records=1_500,
        latency_rounds=1,
        starts=3,
        large_log_mb=400,
        window_mb=100,
        growth_everywhere=False,
    )


_began = time.monotonic()


def say(line: str) -> None:
    """A progress line, on stderr so that the table alone can be redirected."""
    print(f"[{time.monotonic() - _began:4.0f} s] {line}", file=sys.stderr, flush=True)
