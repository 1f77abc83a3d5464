"""`headwater console`: the web page that shows the flow and lets people act on it."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from headwater.cli.admin import DEFAULT_BOOTSTRAP
from headwater.cli.properties import client_config
from headwater.cli.service_words import listen_option, log_option, project_option, say

TOKEN = "HEADWATER_CONSOLE_TOKEN"


def add_to(app: typer.Typer) -> None:
    app.command("console")(console)


def console(
    project: Path | None = project_option(),
    bootstrap: str | None = log_option(),
    listen: str | None = listen_option("127.0.0.1:8765"),
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
    entry = given.entry.also(_asked(token))
    serve(context, at, entry, say, given.tls, given.connections_per_address)


def _asked(token: str | None) -> str | None:
    """typer takes an empty variable for none, and who sets one means to ask for a token."""
    return os.environ.get(TOKEN) if token is None else token
