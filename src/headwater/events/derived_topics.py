"""Which topics hold what derives from another, by their names. Pure; for `headwater forget` and `excise`."""

from __future__ import annotations

from collections.abc import Collection

BY_KEY = (".answers", ".snapshots", ".commands")
"""Topics beside an event topic that hold what derives from it, under the same keys."""
OURS = (*BY_KEY, ".replies")
"""Topics beside an event topic: they hold no event, and owners fence everybody else out of some."""
_LETTERS = ("dlq.", ".dead-letters")


def topics_of(topic: str, known: Collection[str]) -> list[str]:
    """The topics that hold what derives from this one, under the same keys."""
    retries = f"{topic}.saga."
    return sorted(
        name
        for name in known
        if name in {f"{topic}{each}" for each in BY_KEY}
        or (name.startswith(retries) and name.endswith(".retry"))
    )


def letters(known: Collection[str]) -> list[str]:
    """The dead letters of whomever: records as they were, under their keys."""
    first, last = _LETTERS
    return sorted(name for name in known if name.startswith(first) or name.endswith(last))


def source_of(topic: str, known: Collection[str]) -> str | None:
    """The event topic beside which this one is."""
    for each in OURS:
        if topic.endswith(each) and topic.removesuffix(each) in known:
            return topic.removesuffix(each)
    return None
