"""What every page of the console is given: the log, the project, and what this console may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError

if TYPE_CHECKING:
    from headwater.client.log import Log
    from headwater.console.history import History
    from headwater.console.jobs import Jobs
    from headwater.console.watching import Watch
    from headwater.project.file import Project


class ReadOnly(HeadwaterError):
    """Somebody tried to change something through a console that only shows."""


@dataclass(frozen=True)
class Context:
    """One console."""

    bootstrap: str
    client: Mapping[str, str]
    """Settings of librdkafka for a secured broker, without bootstrap.servers."""
    project: Project | None
    read_only: bool
    log: Log
    """The one connection of `headwater.browse`, for all pages and threads."""
    history: History
    watch: Watch
    jobs: Jobs

    def start(self) -> None:
        """With the server."""
        self.history.start()
        self.watch.start()

    async def stop(self) -> None:
        await self.jobs.stop_all()
        self.history.stop()
        self.watch.stop()
        self.log.close()

    def must_write(self) -> None:
        """Every handler that changes anything calls this first, whatever its button looked like."""
        if self.read_only:
            raise ReadOnly(
                "this console is read-only", hint="start one without --read-only to change things"
            )


@dataclass(frozen=True)
class Visit:
    """One look at one page: its console, and what stands in the address."""

    context: Context
    params: Mapping[str, str] = field(default_factory=dict)
    """Of a path like /topics/{name}."""
    query: Mapping[str, str] = field(default_factory=dict)
    """What follows the question mark."""
