"""The documents as the tests see them: pages, their fenced snippets, their links."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.md")])

_FENCE = re.compile(r"^```(\w+)?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?<!`)\[[^\]]+\]\(([^)\s]+)\)")
_SPARK = re.compile(r"pyspark|headwater (run|up|rebuild|verify|demo)\b|hw\.(stream|table|view)")


class Snippet(NamedTuple):
    language: str
    marks: set[str]
    text: str
    line: int


def snippets(page: Path) -> list[Snippet]:
    """Every fenced block; ```` ```python no-run ```` has the language python, the mark no-run."""
    text = page.read_text(encoding="utf-8")
    return [
        Snippet(
            language=found[1] or "",
            marks=set(found[2].split()),
            text=found[3],
            line=text.count("\n", 0, found.start()) + 2,
        )
        for found in _FENCE.finditer(text)
    ]


def runs(snippet: Snippet) -> bool:
    """Whether tests/docs/test_snippets.py runs it."""
    if snippet.language == "python":
        return "no-run" not in snippet.marks
    return snippet.language == "bash" and "run" in snippet.marks


def uses_spark(page: Path) -> bool:
    return any(_SPARK.search(snippet.text) for snippet in filter(runs, snippets(page)))


def links(page: Path) -> list[str]:
    return _LINK.findall(_FENCE.sub("", page.read_text(encoding="utf-8")))


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))
