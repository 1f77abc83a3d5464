"""CONTRIBUTING.md's questions lead to files that are there, by names that the questions say; the glossary
has a word from elsewhere beside each of ours."""

from __future__ import annotations

import re

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


def test_every_word_of_the_glossary_has_one_from_elsewhere_beside_it() -> None:
    rows = [line for line in GLOSSARY.splitlines() if line.startswith("| **")]
    assert len(rows) > 60
    assert [row for row in rows if len(row.strip("| ").split(" | ")) != 3] == []
