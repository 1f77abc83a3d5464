"""Mistakes in headwater.toml, each told with its line.

Called by `file`, and by those who read a section themselves (`edges.config`, `edges.registry.config`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from headwater.errors import HeadwaterError


class BadProject(HeadwaterError):
    """A project file that cannot be used; the sentence has a line for each mistake."""


def mistaken(path: Path, mistakes: Iterable[tuple[str, str]]) -> BadProject:
    """For (section, sentence) pairs, what to raise."""
    lines = Lines(path.read_text(encoding="utf-8"))
    told = (f"{path}:{lines.number(section, None)}: {said}" for section, said in mistakes)
    return BadProject("\n".join(told))


class Lines:
    """Where in a file a section or a setting stands: TOML's reader does not tell."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()

    def number(self, section: str, key: str | None) -> int:
        inside = self._header(section, key)
        if inside is None:
            above, _, name = section.rpartition(".")
            return (
                self.number(above, name) if above else 1
            )  # written in braces: the line of its name
        if key is None:
            return inside
        for number in range(inside, len(self._lines) + 1):
            line = self._lines[number - 1].strip()
            if number > inside and line.startswith("["):
                break
            if re.match(rf'"?{re.escape(key)}"?\s*=', line):
                return number
        return inside

    def _header(self, section: str, key: str | None) -> int | None:
        """That of the section or the setting, or of the first one within the section."""
        own = within = None
        for number, found in self._headers():
            if key is not None and found == f"{section}.{key}":
                return number
            if own is None and found == section:
                own = number
            if within is None and found.startswith(f"{section}."):
                within = number
        return own or within

    def _headers(self) -> Iterator[tuple[int, str]]:
        for number, line in enumerate(self._lines, 1):
            if match := re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line):
                yield number, match[1].replace('"', "")
