"""Every command's help ends in an example, and every example is a command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from headwater.cli.app import build


def commands(command: Any, path: tuple[str, ...] = ("headwater",)) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", {})
    if not below:
        yield " ".join(path), command
    for name, child in below.items():
        yield from commands(child, (*path, name))


def test_every_commands_help_has_an_example_that_its_words_fit():
    for path, command in commands(get_command(build([]))):
        found = re.search(r"Example: (.*)", command.help or "", re.DOTALL)
        assert found, f"{path} --help has no example"
        example = " ".join(found[1].split()).split(" | ")[-1]
        assert example.startswith(path), f"the example of {path} is about something else"
        words = shlex.split(example.removeprefix(path))
        options = {o for each in command.params for o in (*each.opts, *each.secondary_opts)}
        used = {word.split("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)}
        assert used <= options, f"{path} --help uses {used - options}, which it does not have"
