"""Events for tests: at random from a seed, and in an order in which they may arrive."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

START = dt.datetime(2026, 1, 1, 10, tzinfo=dt.UTC)
EVENT = "user STRING, amount BIGINT, at TIMESTAMP"
Event = dict[str, Any]


def event(user: str, amount: int | None, at: str) -> Event:
    """`at` is a time of one day."""
    return {"user": user, "amount": amount, "at": f"2026-01-01T{at}Z"}


def moment(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(f"2026-01-01T{text}+00:00")


def at_random(seed: int, count: int, minutes: int) -> list[Event]:
    """Over so many minutes, with moments that several share and amounts that are missing."""
    chance = random.Random(seed)
    times = sorted(
        START + dt.timedelta(seconds=chance.randrange(minutes * 60)) for _ in range(count)
    )
    return [
        {
            "user": chance.choice("abc"),
            "amount": None if chance.random() < 0.1 else chance.randrange(100),
            "at": time,
        }
        for time in times
    ]


def disturbed(seed: int, events: list[Event], most: dt.timedelta) -> list[Event]:
    """In an order in which no event comes more than `most` after a newer one."""
    chance = random.Random(seed)
    return sorted(events, key=lambda each: each["at"] + most * chance.random() * 0.99)


def in_pieces(seed: int, events: list[Event], pieces: int) -> list[list[Event]]:
    chance = random.Random(seed)
    cuts = sorted(chance.sample(range(1, len(events)), pieces - 1))
    return [events[a:b] for a, b in zip([0, *cuts], [*cuts, len(events)], strict=True)]
