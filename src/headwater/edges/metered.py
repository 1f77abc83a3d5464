"""How far views and captures are, asked as `headwater views` and `headwater capture status` ask.

Called by `metrics`, in threads. Which views there are the project's pipeline files say; they are run again
when one of them has changed.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.browse.log import Log
from headwater.browse.wire import cluster
from headwater.capture.change import Lag, begins_again, in_snapshot
from headwater.capture.config import from_mapping
from headwater.capture.source import open_source
from headwater.capture.writer import read_positions
from headwater.edges.families import CaptureSeen
from headwater.errors import HeadwaterError
from headwater.project.file import Project
from headwater.views.listing import Listed

if TYPE_CHECKING:
    from headwater.pipelines.declared import View

Stamp = tuple[tuple[str, int], ...]


def views_seen(log: Log, project: Project) -> Callable[[], list[Listed]]:
    """A look at every view that the project declares."""
    declared = _Declared(project)

    def look() -> list[Listed]:
        from headwater.pipelines.listed import listed

        views = declared.now()
        if not views:
            return []
        with cluster(log) as connected:
            return [listed(view, connected, log.admin) for view in views]

    return look


class _Declared:
    """The views of the project's files, as they are now."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._stamp: Stamp | None = None
        self._views: list[View] = []

    def now(self) -> list[View]:
        paths = [self._project.folder / path for path in self._project.pipelines]
        stamp = _stamp(paths)
        if stamp != self._stamp:
            from headwater.pipelines.handles import views_of

            targets = {name: str(view["to"]) for name, view in self._project.views.items()}
            self._views = views_of(paths, targets)
            self._stamp = stamp
        return self._views


def _stamp(paths: list[Path]) -> Stamp:
    files = [f for path in paths for f in (path.rglob("*.py") if path.is_dir() else [path])]
    return tuple(sorted((str(f), f.stat().st_mtime_ns) for f in files if f.exists()))


def captures_seen(log: Log, project: Project) -> Callable[[], list[CaptureSeen]]:
    """A look at every capture of the project: its position in the log, the lag that its database tells."""

    def look() -> list[CaptureSeen]:
        stored = read_positions(log.bootstrap, project.captures, log.settings)
        return [
            _capture(name, section, stored.get(name), log)
            for name, section in project.captures.items()
        ]

    return look


def _capture(name: str, section: Any, stored: dict[str, Any] | None, log: Log) -> CaptureSeen:
    try:
        source = open_source(from_mapping(name, section, log.bootstrap))
        try:
            lag: Lag | None = source.lag()
        finally:
            source.close()
    except HeadwaterError:
        lag = None  # its own process says why; here the gauge is missing
    position = None if stored is None else stored["position"]
    return CaptureSeen(name, _phase(position), stored["ts_ms"] if stored else None, lag)


def _phase(position: dict[str, Any] | None) -> str:
    if position is None:
        return "never run"
    if begins_again(position):
        return "starting anew"
    return "snapshot" if in_snapshot(position) else "streaming"
