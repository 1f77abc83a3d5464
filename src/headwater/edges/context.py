"""What every router and every service of the edges is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headwater.edges.config import Edges
from headwater.edges.services import Status
from headwater.edges.workers import Parsers, Workers, asking

if TYPE_CHECKING:
    from headwater.client.log import Log
    from headwater.edges.appender import Appender
    from headwater.edges.idempotency.appender import Once
    from headwater.project.file import Project


@dataclass(frozen=True)
class Context:
    """The log, the ways to write to it, and what the file says."""

    edges: Edges
    log: Log
    appender: Appender
    once: Once
    project: Project | None = None
    """Where there is none, there are no views to read."""
    status: Status = field(default_factory=Status)
    parsers: Parsers = field(default_factory=Parsers)
    """Take large bodies apart."""
    asking: Workers = field(default_factory=asking)
    """Wait for the log, or for a registry, on behalf of a request."""

    def close(self) -> None:
        """The threads; what waits for one is dropped."""
        self.parsers.close()
        self.asking.close()
