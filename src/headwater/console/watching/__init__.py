"""What the pages show: parts, captures, queries and views, each asked with what the command line asks with.

    cache     an answer that is good for a moment, however many look
    parts     the supervisor's record, and the parts' logs
    captures  position, lag, snapshot
    queries   what Spark's queries tell the log about themselves
    views     where views are, and how fresh
    letters   dead letters that wait
    rows      rows of a view, by key, by words, page by page

`Watch` holds them together. Everything here blocks, and is called from threads.
"""

from __future__ import annotations

from collections.abc import Mapping

from headwater.browse.health import HealthReader
from headwater.client.log import Log
from headwater.console.watching.captures import Captures
from headwater.console.watching.letters import Letters
from headwater.console.watching.parts import Parts
from headwater.console.watching.queries import Queries
from headwater.console.watching.views import Views
from headwater.project.file import Project


class Watch:
    """All that is looked at, of one console."""

    def __init__(self, log: Log, client: Mapping[str, str], project: Project | None) -> None:
        self.parts = Parts(project)
        self.captures = Captures(log, client, project, self.parts)
        self.queries = Queries(log)
        self.views = Views(log, project, self.queries)
        self.letters = Letters(log)
        self.broker = HealthReader(log)

    def start(self) -> None:
        self.queries.start()

    def stop(self) -> None:
        self.queries.stop()
