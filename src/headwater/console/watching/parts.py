"""The parts of the project as the supervisor has written them down, and what each of them printed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from headwater.project import control, record, troubles
from headwater.project.control import Deed, Wish
from headwater.project.file import Project
from headwater.project.parts import EDGES, PIPELINES
from headwater.project.record import Entry
from headwater.project.troubles import Trouble

TAIL_BYTES = 256 * 1024


class Parts:
    """Read anew at each call: it is one small file."""

    def __init__(self, project: Project | None) -> None:
        self._project = project
        self._folder = None if project is None else project.folder / record.FOLDER

    def read(self) -> tuple[bool, Sequence[Entry]]:
        """Whether the project is up, and its parts."""
        return (False, []) if self._folder is None else record.read(self._folder)

    def all(self) -> tuple[bool, Sequence[Entry]]:
        """Processes, the bridges and webhooks within the edges, the views within the pipelines; and whatever
        fails within the edges: a subscription by API has a name that the file does not have."""
        is_up, entries = self.read()
        if self._project is None or not is_up:
            return is_up, entries
        known = {each.name: each for each in entries}
        paused = control.read(control.folder_of(self._project)).paused
        troubled = troubles.read(control.folder_of(self._project))
        names = dict.fromkeys((*control.names_of(self._project), *paused, *troubled))
        inner = [
            _within(name, known, paused.get(name), troubled.get(name))
            for name in names
            if name not in known
        ]
        return is_up, [*entries, *inner]

    def can_ask(self, name: str) -> bool:
        """Whether it can be paused and restarted from here."""
        if self._project is None:
            return False
        is_view = self._project.pipelines and name.startswith(control.VIEW)
        return bool(is_view) or name in control.names_of(self._project)

    def failing(self) -> dict[str, str]:
        """What gets nothing done, and why: services of the edges, processes that end again and again."""
        is_up, entries = self.read()
        if self._project is None or not is_up:
            return {}
        folder = control.folder_of(self._project)
        paused = control.read(folder).paused
        ended = {
            each.name: f"it is {each.state}: {each.reason}"
            for each in entries
            if each.state == "waiting" and each.restarts and not each.asked_by
        }
        told = troubles.read(folder).items()
        return ended | {name: each.reason for name, each in told if name not in paused}

    def view(self, name: str) -> Entry | None:
        """One view as a part of the project; None where there is no project that runs it."""
        is_up, entries = self.read()
        if self._project is None or not is_up or not self._project.pipelines:
            return None
        paused = control.read(control.folder_of(self._project)).paused
        known = {each.name: each for each in entries}
        return _within(control.VIEW + name, known, paused.get(control.VIEW + name))

    def history(self) -> Sequence[Deed]:
        """What people have asked for."""
        if self._project is None:
            return ()
        return control.read(control.folder_of(self._project)).history

    def named(self, name: str) -> Entry | None:
        is_up, entries = self.read()
        return next((each for each in entries if is_up and each.name == name), None)


def _within(
    name: str, known: Mapping[str, Entry], wish: Wish | None, trouble: Trouble | None = None
) -> Entry:
    """A bridge, a webhook or a view: it runs where its process runs, unless somebody paused it, or it gets
    nothing done there."""
    if wish is not None:
        return Entry(name, "paused", since=wish.at_ms / 1000, asked_by=wish.by)
    process = known.get(PIPELINES if name.startswith(control.VIEW) else EDGES)
    if process is None:
        return Entry(name, "stopped")
    if trouble is not None and process.state == "running":
        return Entry(name, "failing", since=trouble.since, reason=trouble.reason, log=process.log)
    return Entry(name, process.state, since=process.since, log=process.log)


def last_lines(path: Path, count: int) -> list[str]:
    """The end of a log, within `TAIL_BYTES`; nothing where there is no such file."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            begin = max(0, size - TAIL_BYTES)
            file.seek(begin)
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    if begin:
        lines = lines[1:]  # the first one is cut
    return lines[-count:]
