"""Which views there are: what the project's pipeline files declare, run again when one of them changes.

For all parts of the edges that know views, and for several threads. The files are run, no query is started.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.client.errors import NotThere
from headwater.errors import HeadwaterError
from headwater.views.targets.contract import Unavailable

if TYPE_CHECKING:
    from headwater.pipelines.declarations import View
    from headwater.project.file import Project

LOOK_S = 2.0
_RUNNING = threading.Lock()
"""What files declare goes to one list of the process: two must not run at once."""
Stamp = tuple[tuple[str, int, int], ...]


class Catalogue:
    """The views of one project; without one, there are none."""

    def __init__(self, project: Project | None) -> None:
        self._project = project
        self._lock = threading.Lock()
        self._looked = -LOOK_S
        self._stamp: Stamp | None = None
        self._views: dict[str, View] = {}

    def all(self) -> list[View]:
        """Blocks while files are run. Raises Unavailable where they are wrong."""
        with self._lock:
            if time.monotonic() - self._looked >= LOOK_S:
                self._look()
                self._looked = time.monotonic()
            return list(self._views.values())

    def view(self, name: str) -> View:
        """Whoever asks may not know of the others: the refusal names none of them."""
        for view in self.all():
            if view.name == name:
                return view
        raise NotThere(f"there is no view {name[:100]!r}", hint="GET /views shows those that exist")

    def _look(self) -> None:
        if self._project is None or not self._project.pipelines:
            return
        paths = [self._project.folder / path for path in self._project.pipelines]
        stamp = _stamp(paths)
        if stamp == self._stamp:
            return
        targets = {name: str(view["to"]) for name, view in self._project.views.items()}
        try:
            self._views = {view.name: view for view in _declared(paths, targets)}
        except HeadwaterError as error:
            raise Unavailable(f"the project's pipeline files cannot be used: {error}") from error
        self._stamp = stamp


def _declared(paths: list[Path], targets: Mapping[str, str]) -> list[View]:
    from headwater.pipelines.handles import placed, views_of
    from headwater.pipelines.loader import load_again

    with _RUNNING:
        try:
            return placed(load_again(paths), targets)
        except HeadwaterError as error:
            if not _wants_spark(error.__cause__):
                raise  # a session, which takes many seconds, would not mend it
        return views_of(paths, targets)


def _wants_spark(cause: BaseException | None) -> bool:
    """Whether a file failed because it asks Spark for something as soon as it is run, as `@udf("long")`."""
    return cause is not None and (
        type(cause).__module__.startswith("pyspark") or "spark" in str(cause).lower()
    )


def _stamp(paths: list[Path]) -> Stamp:
    files = [f for path in paths for f in (path.rglob("*.py") if path.is_dir() else [path])]
    found = ((f, f.stat()) for f in files if f.exists())
    return tuple(sorted((str(f), stat.st_mtime_ns, stat.st_size) for f, stat in found))
