"""`headwater up`: everything that a project consists of, under one supervisor."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import typer

_COLOURS = ("36", "33", "35", "32", "34")


def add_to(app: typer.Typer) -> None:
    app.command("up")(up)


def file_option() -> Path:
    option: Path = typer.Option(
        Path("headwater.toml"), "--file", metavar="PATH", help="The project's file."
    )
    return option


def up(
    file: Path = file_option(),
    quiet: bool = typer.Option(
        False, "--quiet", help="Do not show what the parts print; it is in data/up/."
    ),
) -> int:
    """Run the project: broker, captures, queries, until Ctrl-C or SIGTERM.

    Each part is a process that is started again when it fails, while the others go on. Stopping is in
    order, and starting again goes on where it was. Logs are in data/up/; see also headwater status.

    Example: headwater up --quiet
    """
    from headwater.project.file import load
    from headwater.project.parts import parts_of
    from headwater.project.secret_check import refuse_missing
    from headwater.project.supervisor import Supervisor

    project = load(file)
    refuse_missing(project)
    if project.edges is not None:
        from headwater.edges.config import of_project

        of_project(project)  # a file with a mistake starts nothing
    if project.schemas is not None:
        from headwater.edges.registry.config import of_project as registry_of

        registry_of(project)
    parts = parts_of(project)
    if not parts:
        print(f"{file} names nothing to run: no log, no capture, no pipelines", file=sys.stderr)
        return 1
    show = _Shown([part.name for part in parts], quiet=quiet)
    supervisor = Supervisor(parts, project.folder.absolute(), project.address, show)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: supervisor.stop())
    return supervisor.run()


class _Shown:
    """Lines for a person: time, part, what it says."""

    def __init__(self, names: list[str], *, quiet: bool) -> None:
        self._width = max(map(len, names))
        self._quiet = quiet
        self._colours = {}
        if sys.stderr.isatty():
            self._colours = {n: _COLOURS[i % len(_COLOURS)] for i, n in enumerate(names)}

    def __call__(self, part: str, sentence: str) -> None:
        if self._quiet and sentence.startswith("|"):
            return
        name = (part or "up").ljust(self._width)
        if colour := self._colours.get(part):
            name = f"\033[{colour}m{name}\033[0m"
        print(f"{time.strftime('%H:%M:%S')} {name} {sentence}", file=sys.stderr, flush=True)
