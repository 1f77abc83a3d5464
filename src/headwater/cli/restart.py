"""`headwater restart`: end a part of the project that runs, and start it again."""

from __future__ import annotations

from pathlib import Path

import typer

from headwater.cli.pause import asked, name_argument
from headwater.cli.up import file_option


def add_to(app: typer.Typer) -> None:
    app.command("restart")(restart)


def restart(name: str = name_argument(), file: Path = file_option()) -> None:
    """Restart a part, once it has ended the work at hand; the others go on.

    Example: headwater restart pipelines
    """
    asked(file, name, "restart")
