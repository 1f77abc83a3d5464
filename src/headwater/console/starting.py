"""What a console is told, by words and by the project's file; words go before the file.

Called by `headwater console`. The process moves into the project's folder, as paths in its file mean that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headwater.browse.log import Log
from headwater.capture.config import expand
from headwater.console.addresses import DEFAULT
from headwater.console.context import Context
from headwater.console.history import History
from headwater.console.jobs import Jobs
from headwater.console.watching import Watch
from headwater.project.file import FILE, Project, load


@dataclass(frozen=True)
class Given:
    """All that is known before it starts."""

    bootstrap: str
    client: Mapping[str, str]
    project: Project | None
    listen: str
    token: str | None
    read_only: bool

    def context(self, *, read_only: bool) -> Context:
        log = Log(self.bootstrap, self.client)
        return Context(
            bootstrap=self.bootstrap,
            client=self.client,
            project=self.project,
            read_only=read_only or self.read_only,
            log=log,
            history=History(self.bootstrap, self.client),
            watch=Watch(log, self.client, self.project),
            jobs=Jobs(),
        )


def settled(
    project: Path | None,
    bootstrap: str | None,
    client: Mapping[str, str],
    *,
    default_bootstrap: str,
) -> Given:
    """Read the project, where there is one, and go into its folder."""
    found = _project(project, alone=bootstrap is not None)
    if found is None:
        return Given(bootstrap or default_bootstrap, client, None, DEFAULT, None, False)
    os.chdir(found.folder)
    said = found.console or {}
    token = said.get("token")
    return Given(
        bootstrap=bootstrap or found.address,
        client=client,
        project=found,
        listen=said.get("listen", DEFAULT),
        token=expand(token) if token else None,
        read_only=said.get("read_only", False),
    )


def _project(path: Path | None, *, alone: bool) -> Project | None:
    """The one that is named; else the one in this folder, unless only an address was given."""
    if path is not None:
        return load((path / FILE if path.is_dir() else path).absolute())
    here = Path(FILE).absolute()
    return load(here) if here.exists() and not alone else None
