"""CONTRIBUTING.md's questions lead to files that are there, by names that the questions say; the glossary
has a word from elsewhere beside each of ours."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

QUESTIONS = re.findall(
    r"^\| (.+\?) \| `([\w/]+\.py)` \|$",
    (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
    re.MULTILINE,
)
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
STEM_LETTERS = 4
"""So many letters of a word tell it: `signed` leads to `signatures`."""


def test_there_are_ten_questions() -> None:
    assert len(QUESTIONS) >= 10


@pytest.mark.parametrize(("question", "file"), QUESTIONS)
def test_the_file_that_answers_is_there_and_the_question_says_its_name(
    question: str, file: str
) -> None:
    path = ROOT / "src" / "headwater" / file
    assert path.exists()
    asked = {word[:STEM_LETTERS] for word in re.findall(r"[a-z]+", question.lower())}
    named = {word[:STEM_LETTERS] for word in path.stem.split("_")}
    assert named & asked


def test_the_walk_of_a_record_passes_files_that_are_there_and_ends_in_a_view() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    walk = page.partition("file by file\n")[2].partition("\n## ")[0]
    files = re.findall(r"`([\w/]+\.py)`", walk)
    assert [each for each in files if not (ROOT / "src" / "headwater" / each).exists()] == []
    assert files[0].startswith("broker/") and any(
        each.startswith("views/targets/") for each in files
    )


def test_every_word_of_the_glossary_has_one_from_elsewhere_beside_it() -> None:
    rows = [line for line in GLOSSARY.splitlines() if line.startswith("| **")]
    assert len(rows) > 60
    assert [row for row in rows if len(row.strip("| ").split(" | ")) != 3] == []


PACKAGES = sorted((ROOT / "src" / "headwater").rglob("__init__.py"))
NAMES = re.compile(r"[a-z_]+(, [a-z_]+)*")


def pictured(picture: str) -> set[str]:
    """The names in the columns of a package's picture, and those that `; name: …` explains beside them."""
    found: set[str] = set()
    for line in re.findall(r"^(?: {4})?(\S.*  .*)$", picture.replace(".py", ""), re.MULTILINE):
        columns = re.split(r"  +", line)
        told = [each for each in columns[::2] if NAMES.fullmatch(each)]
        if columns[0] in told:
            told += re.findall(r"; ([a-z_]+(?:, [a-z_]+)*): ", line)
            found.update(name for each in told for name in each.split(", "))
    return found


def test_the_names_of_a_picture_are_found() -> None:
    text = """A package.

    log, store  what is kept; index: where      spans   told, as data
                continued here  and here
    ``x = 1``   code

lines, rows.py  at the margin, too
"""
    assert pictured(text) == {"log", "store", "index", "spans", "lines", "rows"}


@pytest.mark.parametrize("path", PACKAGES, ids=lambda path: path.parent.name)
def test_what_a_package_pictures_is_in_it(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    there = {each.stem for each in path.parent.iterdir()}
    there |= {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }  # what it offers by name
    there |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    there |= {
        each.name for node in tree.body if isinstance(node, ast.ImportFrom) for each in node.names
    }
    assert pictured(ast.get_docstring(tree, clean=False) or "") - there == set()
