"""What people want of a project's parts while it runs: paused, resumed, restarted; kept across restarts.

Written by `headwater pause|resume|restart` and by the console, read by the supervisor (processes) and by the
edges (bridges and webhooks) and the pipelines (views), which are many in one process. One small JSON file,
replaced as a whole:

    {"paused":   {"capture shop": {"by": "User:ann", "at_ms": …}},
     "restarts": {"edges": {"count": 2, "by": "User:ann", "at_ms": …}},
     "history":  [{"at_ms": …, "by": "User:ann", "what": "pause", "name": "capture shop"}, …]}
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headwater import atomic_file, owner_only
from headwater.errors import HeadwaterError
from headwater.project import record
from headwater.project.file import Project
from headwater.project.parts import BROKER, CONSOLE, parts_of

FILE, LOCK = "control.json", "control.lock"
HISTORY_MAX = 500
Verb = Literal["pause", "resume", "restart"]
NEVER_PAUSED = (BROKER, CONSOLE)
SERVICES = ("bridges", "webhooks")
"""Sections of [edges] whose entries run for themselves within the one process."""
VIEW = "view "
"""What the name of a view begins with here: it runs within the pipelines."""


class BadControl(HeadwaterError):
    """The file was changed by hand, or what was asked for is not there."""


@dataclass(frozen=True)
class Wish:
    """Of one part; `count`: how many restarts there were."""

    by: str
    at_ms: int
    count: int = 0


@dataclass(frozen=True)
class Deed:
    """One thing that somebody asked for."""

    at_ms: int
    by: str
    what: str
    name: str


@dataclass(frozen=True)
class Control:
    """All that is asked for."""

    paused: Mapping[str, Wish] = field(default_factory=dict)
    restarts: Mapping[str, Wish] = field(default_factory=dict)
    history: tuple[Deed, ...] = ()


def folder_of(project: Project) -> Path:
    return project.folder.absolute() / record.FOLDER


def names_of(project: Project) -> list[str]:
    """Everything of a project that can be paused or restarted: processes, views, bridges, webhooks."""
    found = [part.name for part in parts_of(project)]
    views = [VIEW + name for name in project.views] if project.pipelines else []
    edges = project.edges or {}
    return found + views + [f"{kind}.{name}" for kind in SERVICES for name in edges.get(kind, {})]


def named(project: Project, word: str) -> str:
    """The one that is meant; a view that only its pipeline file knows of must be said to be one."""
    if project.pipelines and word.startswith(VIEW) and word.removeprefix(VIEW):
        return word
    return found_in(names_of(project), word)


def found_in(names: list[str], word: str) -> str:
    """The one that is meant: its whole name, or what follows its kind. Pure."""
    if word in names:
        return word
    meant = [each for each in names if word in (each.partition(" ")[2], each.partition(".")[2])]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise BadControl(f"{word!r} may be {' or '.join(meant)}", hint="write the whole name")
    raise BadControl(f"nothing here is named {word!r}", hint=f"there are {', '.join(names)}")


def read(folder: Path) -> Control:
    """Nothing asked for, where there is no file; BadControl where it cannot be understood."""
    try:
        said = json.loads((folder / FILE).read_text(encoding="utf-8"))
        return Control(
            {name: Wish(**each) for name, each in said["paused"].items()},
            {name: Wish(**each) for name, each in said["restarts"].items()},
            tuple(Deed(**each) for each in said["history"]),
        )
    except FileNotFoundError:
        return Control()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadControl(
            f"{folder / FILE} cannot be read: {error}",
            hint="correct it, or remove it: then nothing is paused",
        ) from None


def ask(folder: Path, name: str, verb: Verb, by: str) -> Control:
    """Write down what somebody wants; whoever runs the part does it within a second."""
    if verb == "pause" and name in NEVER_PAUSED:
        raise BadControl(
            f"{name} is not paused: the others need it", hint="stop the project instead"
        )
    owner_only.make_folder(folder)
    with _locked(folder):
        after = asked(read(folder), name, verb, by, time.time_ns() // 1_000_000)
        _write(folder, after)
    return after


def asked(now: Control, name: str, verb: Verb, by: str, at_ms: int) -> Control:
    """What is asked for then; BadControl for what is so already. Pure."""
    paused, restarts = dict(now.paused), dict(now.restarts)
    if verb == "pause":
        if name in paused:
            raise BadControl(f"{name} is paused already, by {paused[name].by}")
        paused[name] = Wish(by, at_ms)
    elif verb == "resume":
        if paused.pop(name, None) is None:
            raise BadControl(f"{name} is not paused")
    else:
        if name in paused:
            raise BadControl(f"{name} is paused", hint="resume it instead")
        before = restarts.get(name)
        restarts[name] = Wish(by, at_ms, 1 + (before.count if before else 0))
    history = (*now.history, Deed(at_ms, by, verb, name))[-HISTORY_MAX:]
    return Control(paused, restarts, history)


class Watched:
    """The file as it is now, read again only when it has changed."""

    def __init__(self, folder: Path) -> None:
        self._path, self._folder = folder / FILE, folder
        self._stamp: tuple[int, int] | None = None
        self.now = Control()
        """As last understood."""
        self.trouble: str | None = None

    def look(self) -> Control:
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_ino)
        except OSError:
            stamp = None
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self.now, self.trouble = read(self._folder), None
            except BadControl as error:
                self.trouble = str(error)  # what was asked for before goes on
        return self.now


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with owner_only.opened(folder / LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _write(folder: Path, control: Control) -> None:
    said = {
        "paused": {name: vars(each) for name, each in control.paused.items()},
        "restarts": {name: vars(each) for name, each in control.restarts.items()},
        "history": [vars(each) for each in control.history],
    }
    with atomic_file.replacing(folder / FILE) as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(json.dumps(said, indent=1).encode())
