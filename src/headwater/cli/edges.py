"""`headwater edges`: HTTP, webhooks, devices and bridges, beside the log."""

from __future__ import annotations

from pathlib import Path

import typer

from headwater.cli.admin import DEFAULT_BOOTSTRAP
from headwater.cli.properties import client_config
from headwater.cli.service_words import listen_option, log_option, project_option, say


def add_to(app: typer.Typer) -> None:
    app.command("edges")(edges)


def edges(
    project: Path | None = project_option(),
    bootstrap: str | None = log_option(),
    listen: str | None = listen_option("127.0.0.1:8086"),
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
        say,
        default_bootstrap=DEFAULT_BOOTSTRAP,
    )
