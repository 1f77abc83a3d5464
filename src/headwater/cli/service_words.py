"""What `edges`, `console` and `schemas serve` are told alike: the project, the log, where to listen."""

from __future__ import annotations

import sys
from pathlib import Path

import typer


def project_option() -> Path | None:
    found: Path | None = typer.Option(
        None,
        "--project",
        metavar="DIR",
        help="Of this project (a folder or its headwater.toml); without it, the one in this folder.",
    )
    return found


def log_option() -> str | None:
    found: str | None = typer.Option(
        None,
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="HEADWATER_BOOTSTRAP",
        help="The log is at this address, whatever the file says.",
    )
    return found


def listen_option(default: str) -> str | None:
    found: str | None = typer.Option(
        None,
        "--listen",
        metavar="HOST:PORT",
        help=f"Where it is served; {default} if nothing else is said. Port 0: any free one.",
    )
    return found


def say(sentence: str) -> None:
    """To whoever started it; what a command prints as its result goes elsewhere."""
    print(sentence, file=sys.stderr, flush=True)
