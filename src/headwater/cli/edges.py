"""`headwater edges`: HTTP, webhooks, devices and bridges, beside the log."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from headwater.cli.admin import DEFAULT_BOOTSTRAP
from headwater.cli.properties import client_config


def add_to(app: typer.Typer) -> None:
    app.command("edges")(edges)


def edges(
    project: Path | None = typer.Option(
        None,
        "--project",
        metavar="DIR",
        help="Of this project (a folder or its headwater.toml); without it, the one in this folder.",
    ),
    bootstrap: str | None = typer.Option(
        None,
        "--bootstrap",
        metavar="HOST:PORT",
        envvar="HEADWATER_BOOTSTRAP",
        help="The log is at this address, whatever the file says.",
    ),
    listen: str | None = typer.Option(
        None,
        "--listen",
        metavar="HOST:PORT",
        help="Where HTTP is served; 127.0.0.1:8086 if nothing else is said. Port 0: any free one.",
    ),
) -> None:
    """Serve the edges until Ctrl-C or SIGTERM.

    Events come in by HTTP, webhooks, UDP and bridges; changes go out as Server-Sent Events, WebSockets and
    webhooks. What there is stands under [edges] in headwater.toml; without a file there is HTTP on this
    machine only. Under headwater up it runs by itself.

    Example: headwater edges --bootstrap 127.0.0.1:9092 --listen 127.0.0.1:8086
    """
    from headwater.edges.server import serve

    serve(
        project,
        bootstrap,
        listen,
        client_config(),
        lambda sentence: print(sentence, file=sys.stderr, flush=True),
        default_bootstrap=DEFAULT_BOOTSTRAP,
    )
