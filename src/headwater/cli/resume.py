"""`headwater resume`: let a part that was paused go on."""

from __future__ import annotations

from pathlib import Path

import typer

from headwater.cli.pause import asked, name_argument
from headwater.cli.up import file_option


def add_to(app: typer.Typer) -> None:
    app.command("resume")(resume)


def resume(name: str = name_argument(), file: Path = file_option()) -> None:
    """Let what was paused go on from where it was.

    Example: headwater resume shop
    """
    asked(file, name, "resume")
