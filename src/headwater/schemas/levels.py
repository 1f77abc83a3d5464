"""Levels of compatibility: with which versions a new one is compared, in which direction, and what is
said; pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headwater.schemas.bounds import DIFFERENCES_MAX
from headwater.schemas.errors import invalid_level
from headwater.schemas.model import Parsed

LEVELS = (
    "NONE",
    "BACKWARD",
    "BACKWARD_TRANSITIVE",
    "FORWARD",
    "FORWARD_TRANSITIVE",
    "FULL",
    "FULL_TRANSITIVE",
)


class Known(NamedTuple):
    """A version that the new schema has to get along with."""

    version: int
    parsed: Parsed


def checked(level: object) -> str:
    """In capital letters. Raises invalid_level."""
    found = level.upper() if isinstance(level, str) else ""
    if found not in LEVELS:
        raise invalid_level(level)
    return found


def is_setting(key: str, value: object) -> bool:
    """Of a config's record. A level that nobody knows would forbid nothing: the wider one counts."""
    return value in LEVELS if key == "compatibilityLevel" else key != "subject"


def complaints(new: Parsed, known: Sequence[Known], level: str) -> list[str]:
    """Why a schema is not compatible with those before it, oldest first; empty: it is."""
    if level == "NONE":
        return []
    # The latest first: it is what most people have just looked at.
    compared = list(reversed(known)) if level.endswith("_TRANSITIVE") else list(known[-1:])
    for each in compared:
        said = _between(new, each.parsed, level)
        if said:
            return [*_bounded(said), f"{{oldSchemaVersion: {each.version}}}",
                    f"{{oldSchema: '{_shortened(each.parsed.canonical)}'}}",
                    f"{{compatibility: '{level}'}}"]  # fmt: skip
    return []


def _between(new: Parsed, old: Parsed, level: str) -> list[str]:
    if new.kind != old.kind:
        return [f"Incompatible because of different schema type: {old.kind} became {new.kind}"]
    said: list[str] = []
    if level.startswith(("BACKWARD", "FULL")):
        said += [each.said("new", "old") for each in new.unreadable(old)]
    if level.startswith(("FORWARD", "FULL")):
        said += [each.said("old", "new") for each in old.unreadable(new)]
    return list(dict.fromkeys(said))


def _bounded(said: list[str]) -> list[str]:
    if len(said) <= DIFFERENCES_MAX:
        return said
    return [*said[:DIFFERENCES_MAX], f"and {len(said) - DIFFERENCES_MAX} more"]


def _shortened(text: str) -> str:
    return text if len(text) <= 2000 else f"{text[:2000]}…"
