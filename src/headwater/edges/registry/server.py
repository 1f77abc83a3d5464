"""From words to a listening registry: checks what may be listened to, reads the topic, serves until told
to stop.

Called by `headwater schemas serve`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from headwater.client.log import Log
from headwater.edges.registry.config import RegistryConfig, of_project
from headwater.project import ports, tls
from headwater.project.file import Project
from headwater.project.web_service import CannotServe, WebService, place, project_at
from headwater.schemas.store import Store

SERVICE = WebService("the registry", "schemas")
STOP_S = 5
SLOW_S = 30.0


@dataclass(frozen=True)
class Words:
    """Of the command: what is None is said by the project, or else by the default."""

    project: Path | None = None
    bootstrap: str | None = None
    listen: str | None = None
    topic: str | None = None


def serve(
    words: Words,
    client: Mapping[str, str],
    say: Callable[[str], None],
    *,
    default_bootstrap: str,
) -> None:
    """Until SIGTERM or SIGINT."""
    project = project_at(words.project)
    config = of_project(project) if project is not None else RegistryConfig()
    config = replace(
        config, listen=words.listen or config.listen, topic=words.topic or config.topic
    )
    host, port = place(config.listen, _refusal(config))
    if project is not None:
        os.chdir(project.folder)  # paths in its file mean that
    address = words.bootstrap or (project.address if project is not None else default_bootstrap)
    with SERVICE.bound(host, port, SLOW_S) as listener:
        _run(config, project, Log(address, client), listener, say)


def _run(
    config: RegistryConfig,
    project: Project | None,
    log: Log,
    listener: socket.socket,
    say: Callable[[str], None],
) -> None:
    with SERVICE.imports():
        from headwater.edges.registry.app import App
        from headwater.project import http_server
    certificates = tls.certificates(
        config.tls, project.settings if project is not None else {}, "schemas"
    )
    loopback_only = ports.is_loopback(listener.getsockname()[0])
    with log, Store(log, config.topic) as store:
        app = App(store, config, loopback_only=loopback_only)
        served = http_server.config(app, slow_s=SLOW_S, stop_s=STOP_S, keep_alive_s=75)
        server = http_server.Server(served, certificates, config.connections_per_address)
        server.run_at(listener, lambda url: say(f"the registry is at {url}"))


def _refusal(config: RegistryConfig) -> CannotServe | None:
    """Why it is not for other machines; None where it may be."""
    if config.tokens:
        return None
    return CannotServe(
        f"without tokens the registry listens on this machine only, and {config.listen} is more than that",
        hint="write [schemas.tokens.NAME] with secret, read and write, or listen at 127.0.0.1",
    )
