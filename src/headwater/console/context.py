"""What every page of the console is given: the log, the project, who looks, and what he may do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.client.namespace import is_own
from headwater.console import actions
from headwater.console.actions import Action, NotAllowed
from headwater.console.administration.delegates import Delegates
from headwater.console.sessions import NOBODY, Visitor
from headwater.project.roles import Role

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
    delegates: Delegates = field(init=False)
    """Connections for changes, one for each visitor."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "delegates", Delegates(self.bootstrap, self.client))

    def start(self) -> None:
        """With the server."""
        self.history.start()
        self.watch.start()

    async def stop(self) -> None:
        await self.jobs.stop_all()
        self.history.stop()
        self.watch.stop()
        self.delegates.close()
        self.log.close()


@dataclass(frozen=True)
class Visit:
    """One look at one page: its console, what stands in the address, and who looks."""

    context: Context
    params: Mapping[str, str] = field(default_factory=dict)
    """Of a path like /topics/{topic}."""
    query: Mapping[str, str] = field(default_factory=dict)
    """What follows the question mark."""
    visitor: Visitor = NOBODY
    stands: Callable[[], bool] = lambda: True
    """Whether the session in which the page was made goes on: the page may outlive it for moments."""

    def must_stand(self) -> None:
        """Raises NotAllowed."""
        if not self.stands():
            raise NotAllowed("you are not signed in any more", hint="reload the page to sign in")

    def topic(self) -> str:
        """The one that stands in the address, or nothing; the log's own are for administrators to look at."""
        name = self.params.get("topic") or self.query.get("topic", "")
        if is_own(name) and self.visitor.role < Role.ADMINISTRATOR:
            raise NotAllowed(
                f"{name} is the log's own, and to look into it takes the role of "
                f"{Role.ADMINISTRATOR.word}; yours is {self.visitor.role.word}",
                hint="ask whoever runs the console for it, or sign in as somebody else",
            )
        return name

    @property
    def log(self) -> Log:
        """The log, asked in the visitor's name: for what changes it, so that the audit tells who."""
        return self.context.delegates.log_of(self.visitor.name)

    def may(self, action: Action) -> bool:
        """Whether to show its button."""
        return actions.allows(action, self.visitor.role, read_only=self.context.read_only)

    def must(self, action: Action) -> None:
        """Everything that changes anything asks this first, whatever its button looked like."""
        self.must_stand()
        actions.check(action, self.visitor.role, read_only=self.context.read_only)
