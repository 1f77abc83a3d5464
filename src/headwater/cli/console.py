"""`headwater console`: the web page that shows the flow and lets people act on it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from headwater.cli.admin import DEFAULT_BOOTSTRAP
from headwater.cli.properties import client_config

TOKEN = "HEADWATER_CONSOLE_TOKEN"


def add_to(app: typer.Typer) -> None:
    app.command("console")(console)


def console(
    project: Path | None = typer.Option(
        None,
        "--project",
        metavar="DIR",
        help="Show this project (a folder or its headwater.toml); without it, the one in this folder.",
    ),
    bootstrap: str | None = typer.Option(
        None,
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="HEADWATER_BOOTSTRAP",
        help="Show the log at this address.",
    ),
    listen: str | None = typer.Option(
        None,
        "--listen",
        metavar="HOST:PORT",
        help="Where the page is served; 127.0.0.1:8765 if nothing else is said. Port 0: any free one.",
    ),
    read_only: bool = typer.Option(
        False, "--read-only", help="Refuse everything that would change something."
    ),
    token: str | None = typer.Option(
        None,
        "--token",
        envvar=TOKEN,
        help="Ask visitors for this token; better given in the environment, where `ps` does not show it.",
    ),
) -> None:
    """Serve the console until Ctrl-C or SIGTERM.

    It listens on this machine only, unless told otherwise, and then only if it asks for a token or a user.
    Under headwater up it runs by itself where headwater.toml has a section [console].

    Example: headwater console --bootstrap 127.0.0.1:9092 --read-only
    """
    from headwater.console.server import serve, settled

    given = settled(project, bootstrap, client_config(), default_bootstrap=DEFAULT_BOOTSTRAP)
    context, at = given.context(read_only=read_only), listen or given.listen
    serve(context, at, given.entry.also(_asked(token)), _say, given.tls)


def _asked(token: str | None) -> str | None:
    """typer takes an empty variable for none, and who sets one means to ask for a token."""
    return os.environ.get(TOKEN) if token is None else token


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)
