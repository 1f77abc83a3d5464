"""What every page of the console is given: the log, the project, who looks, and what he may do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.console import actions
from headwater.console.actions import Action
from headwater.console.sessions import NOBODY, Visitor

if TYPE_CHECKING:
    from headwater.client.log import Log
    from headwater.console.history import History
    from headwater.console.jobs import Jobs
    from headwater.console.watching import Watch
    from headwater.project.file import Project


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


@dataclass(frozen=True)
class Visit:
    """One look at one page: its console, what stands in the address, and who looks."""

    context: Context
    params: Mapping[str, str] = field(default_factory=dict)
    """Of a path like /topics/{name}."""
    query: Mapping[str, str] = field(default_factory=dict)
    """What follows the question mark."""
    visitor: Visitor = NOBODY

    def may(self, action: Action) -> bool:
        """Whether to show its button."""
        return actions.allows(action, self.visitor.role, read_only=self.context.read_only)

    def must(self, action: Action) -> None:
        """Everything that changes anything asks this first, whatever its button looked like."""
        actions.check(action, self.visitor.role, read_only=self.context.read_only)
