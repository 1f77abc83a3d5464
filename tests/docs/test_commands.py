"""No page shows a command or an option that does not exist, also where the snippet is not run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from headwater.cli.app import build
from tests.docs.pages import PAGES, name, snippets

_END_OF_COMMAND = re.compile(r"[|&;]+|\d?[<>].*")
_PLAIN = re.compile(r"(?:[.\w/]*bin/)?headwater")


def commands(page: Path) -> Iterator[tuple[int, list[str]]]:
    """The words of each `headwater …` in the shell snippets of a page, with the line."""
    for snippet in snippets(page):
        if snippet.language != "bash":
            continue
        text = snippet.text.replace("\\\n", "  ")
        for number, line in enumerate(text.splitlines()):
            try:
                words = shlex.split(line.strip(), comments=True)
            except ValueError:
                continue  # a text of several lines
            if words and _PLAIN.fullmatch(words[0]) and "…" not in line and "$" not in line:
                end = next(
                    (n for n, word in enumerate(words) if _END_OF_COMMAND.fullmatch(word)), None
                )
                yield snippet.line + number, [word.rstrip(";") for word in words[1:end]]


WITH_COMMANDS = [page for page in PAGES if any(commands(page))]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name)
def test_every_command_shown_exists_with_its_options(page: Path):
    top = get_command(build([]))
    wrong = [
        f"{name(page)}:{line}: headwater {' '.join(words)}: {complaint}"
        for line, words in commands(page)
        if (complaint := complaint_about(top, words)) is not None
    ]
    assert wrong == []


def complaint_about(command: Any, words: list[str]) -> str | None:
    """What the command line's own parser has against these words; values are not looked at."""
    while (children := getattr(command, "commands", None)) is not None:
        if not words or words[0].startswith("-"):
            return None
        if words[0] not in children:
            return f"there is no command {words[0]}"
        command, words = children[words[0]], words[1:]
    try:
        command.make_context(command.name, list(words))
    except Exception as error:  # typer brings its own copy of click's errors: known by their names
        kind = type(error).__name__
        if kind in ("NoSuchOption", "MissingParameter", "UsageError", "BadOptionUsage"):
            return str(error)
        if kind not in ("BadParameter", "Exit"):
            raise
    return None


@pytest.mark.parametrize(
    "words", ["nonsense", "topics nonsense", "topics create orders --nonsense", "topics create"]
)
def test_a_command_that_does_not_exist_is_found_out(words: str):
    assert complaint_about(get_command(build([])), words.split()) is not None
