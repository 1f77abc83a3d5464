"""What has been reached, and whether a change keeps it: pure, but for reading and writing `numbers.txt`.

A line of that file is `measure path number`, sorted, so that two branches seldom meet on one line.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tools.tidy.measures import MEASURES, Numbers

HEAD = "# Written by `make tidy`. No number may rise; see tools/tidy/__init__.py.\n"


def parse(text: str) -> Numbers:
    """The numbers of a file's text."""
    found: Numbers = {name: {} for name in MEASURES}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            measure, path, number = line.split()
            found.setdefault(measure, {})[path] = int(number)
    return found


def text_of(numbers: Numbers) -> str:
    """The text of a file with these numbers."""
    lines = [
        f"{measure} {path} {number}\n"
        for measure, files in sorted(numbers.items())
        for path, number in sorted(files.items())
    ]
    return HEAD + "".join(lines)


def read(path: Path) -> Numbers:
    """What has been reached; nothing, where it is not written down yet."""
    return parse(path.read_text(encoding="utf-8")) if path.exists() else parse("")


def risen(reached: Numbers, now: Numbers) -> Iterator[str]:
    """A sentence for each number that is higher than the one written down."""
    for measure, files in now.items():
        for path, number in files.items():
            before = reached.get(measure, {}).get(path, 0)
            if number > before:
                yield f"{path}: {MEASURES[measure]}: {number}, was {before} [{measure}]"


def fallen(reached: Numbers, now: Numbers) -> Iterator[str]:
    """A sentence for each number that is lower than the one written down."""
    for measure, files in reached.items():
        for path, before in files.items():
            number = now.get(measure, {}).get(path, 0)
            if number < before:
                yield f"{path}: {number}, was {before} [{measure}]"


def risen_sums(reached: Numbers, now: Numbers) -> Iterator[str]:
    """A sentence for each measure that is higher over all files: what no move of code explains."""
    for measure in MEASURES:
        before, after = (sum(each.get(measure, {}).values()) for each in (reached, now))
        if after > before:
            yield f"{measure} would rise from {before} to {after}: {MEASURES[measure]}"
