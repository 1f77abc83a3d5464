"""The words that people read on the screen are those of the field: repair and fix, rebuild, verified."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from docs import generate
from tests.docs.pages import ROOT

SOURCES = ROOT / "src" / "headwater"
PRIVATE = {
    r"[Mm]end(s|ed|ing)?": "fix, correct or repair",
    r"[Bb]uil[dt] (it |the view |a view )?anew": "rebuild",
    r"[Ff]ound right": "verified",
    r"(?<=[\w,][ \n])anew": "again; start over, recreate, rewrite",
    r"for good": "permanently",
    r"clock to turn": "a manual clock",
    r"a verdict": "a result",
    r"(?<!not )known: ": "use one of …: a hint is something to do",
}
ELSEWHERE = (
    "cli/doctor.py",  # an old name in JSON, for one release
    "testing/targets.py",  # a value of its rows
)


def sentences(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a module that is no docstring or comment."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            yield node.lineno, node.value


@cache
def all_sentences() -> list[tuple[str, str]]:
    """With the place of each."""
    return [
        (f"{path.relative_to(SOURCES)}:{line}", text)
        for path in sorted(SOURCES.rglob("*.py"))
        if not str(path.relative_to(SOURCES)).startswith(ELSEWHERE)
        for line, text in sentences(path)
    ]


@pytest.mark.parametrize("word", PRIVATE)
def test_no_sentence_for_people_has_a_private_word(word: str):
    sought = re.compile(rf"\b{word}")
    found = [f"{place}: {text}" for place, text in all_sentences() if sought.search(text)]
    assert found == [], f"say: {PRIVATE[word]}"


def test_no_help_has_one():
    page = generate.cli_page()
    assert [word for word in PRIVATE if re.search(rf"\b{word}", page)] == []


@pytest.mark.parametrize("word", PRIVATE)
def test_no_page_has_one(word: str):
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "CHANGELOG.md"]
    assert [page.name for page in pages if re.search(rf"\b{word}", page.read_text())] == []
