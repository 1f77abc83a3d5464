"""Views as they are: where each lives, its version, position, lag, and up to where it was verified.

What `headwater views` shows, by the same code. Which views there are the project's pipeline files say; they
are run again when one of them has changed. Where there is no project, the queries' own records say it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from headwater.client.log import Log
from headwater.console.watching.cache import Cached
from headwater.console.watching.queries import Queries
from headwater.errors import HeadwaterError
from headwater.pipelines.declarations import View
from headwater.pipelines.handles import all_listed
from headwater.project.file import Project
from headwater.views.operate.progress import Listed

FOR_S = 2.0


@dataclass(frozen=True)
class ViewNow:
    """One view. `declared` is None where only its query is known."""

    name: str
    to: str
    listed: Listed | None
    declared: View | None

    @property
    def in_store(self) -> bool:
        """Whether it has versions, and can be verified and rebuilt."""
        from headwater.views.targets.registry import is_store

        return self.declared is not None and is_store(self.to)


class Views:
    """Those of the project, or those that queries tell of."""

    def __init__(self, log: Log, project: Project | None, queries: Queries) -> None:
        self._log, self._project, self._queries = log, project, queries
        self._now = Cached(self._look, FOR_S)
        self._stamp: tuple[tuple[str, int], ...] = ()
        self._declared: list[View] = []
        self._mistake: HeadwaterError | None = None

    def now(self) -> list[ViewNow]:
        return self._now.get()

    def glance(self) -> list[ViewNow]:
        return self._now.glance([])

    def mistake(self) -> HeadwaterError | None:
        """Why the pipeline files could not be read, where they could not."""
        return self._mistake

    def forget(self) -> None:
        self._now.forget()

    def _look(self) -> list[ViewNow]:
        declared = self._views()
        found = []
        if declared:
            with self._log.cluster() as connected:
                seen = all_listed(declared, connected, self._log.admin)
            for view, now in zip(declared, seen, strict=True):
                found.append(ViewNow(view.name, view.where, now, view))
        known = {view.name for view in declared}
        for query in self._queries.now():
            if query.name not in known:
                found.append(ViewNow(query.name, query.to, None, None))
        return found

    def _views(self) -> list[View]:
        """As the files declare them now."""
        if self._project is None or not self._project.pipelines:
            return []
        paths = [self._project.folder / path for path in self._project.pipelines]
        stamp = _stamp(paths)
        if stamp != self._stamp:
            from headwater.pipelines.handles import views_of

            targets = {name: str(view["to"]) for name, view in self._project.views.items()}
            try:
                self._declared, self._mistake = views_of(paths, targets), None
            except HeadwaterError as error:
                self._declared, self._mistake = [], error
            self._stamp = stamp
        return self._declared


def _stamp(paths: list[Path]) -> tuple[tuple[str, int], ...]:
    files = [f for path in paths for f in (path.rglob("*.py") if path.is_dir() else [path])]
    return tuple(sorted((str(f), f.stat().st_mtime_ns) for f in files if f.exists()))
