"""Which version of a view readers see, and how `headwater run` follows when that changes.

`headwater rebuild` builds a version beside the one that runs, and switches. A running query asks the store
about once a second; when another version is current it stops after its batch, has the view's files loaded
again (a changed query comes that way), and goes on with that version and its checkpoint.

The store is asked in a thread of its own: one that is away must not hold up the other queries.

Also here: which version a rebuild builds: one that was begun by the same query and not finished, or a
new one.

A note in the version's checkpoint folder says by which query it was begun: the text of its file, its target
and key. Going on with another query would leave half of the rows as the old one made them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from headwater import atomic_file
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError
from headwater.pipelines.stores import kind_of
from headwater.views.operate.versions import Versions
from headwater.views.targets import registry
from headwater.views.targets.contract import Shape, Unavailable

EVERY_S, AWAY_S = 1.0, 10.0


def follows(view: View) -> bool:
    """Whether the view lives in a store with versions."""
    return view.effect is None and registry.is_store(view.to)


def current_version(view: View) -> int | None:
    """What the store says; None where it has no version yet, or is away."""
    import pyarrow as pa

    shape = Shape(view.name, pa.schema([]), view.key, kind_of(view), 1, view.options)
    try:
        return registry.target_for(view.to, shape).current()
    except Unavailable:
        return None


def at_current_version(view: View) -> View:
    """The version to run: the one that readers see, or the first."""
    if not follows(view):
        return view
    return replace(view, version=current_version(view) or 1)


class Following:
    """Asks for one query, without making it wait."""

    def __init__(self, view: View, ask: Callable[[View], int | None] = current_version) -> None:
        self._view, self._ask = view, ask
        self._asker: ThreadPoolExecutor | None = None
        self._asked: Future[int | None] | None = None
        self._due = time.monotonic() + EVERY_S

    def other_version(self) -> int | None:
        """The version that is current now, once it is known not to be the view's own."""
        if not follows(self._view):
            return None
        if self._asked is None and time.monotonic() >= self._due:
            self._asker = self._asker or ThreadPoolExecutor(1, f"versions of {self._view.name}")
            self._asked = self._asker.submit(self._ask, self._view)
        if self._asked is None or not self._asked.done():
            return None
        failed, asked, self._asked = self._asked.exception() is not None, self._asked, None
        self._due = time.monotonic() + (AWAY_S if failed else EVERY_S)
        found = None if failed else asked.result()
        return None if found == self._view.version else found

    def close(self) -> None:
        if self._asker is not None:
            self._asker.shutdown(wait=False, cancel_futures=True)


NOTE = "rebuild.json"


def number_for(versions: Versions, view: View, text: str, checkpoints: Checkpoints) -> int:
    """The version that an interrupted rebuild has begun by the same query, or a new one."""
    for number in reversed(versions.others if checkpoints.is_local else []):
        begun = _read_note(checkpoints, replace(view, version=number))
        if begun is None or number < versions.current:
            continue  # an older version, or one whose checkpoint is gone
        if begun != _fingerprint(view, text):
            raise PipelineError(
                f"version {number} of the view {view.name!r} was begun by a query that has been edited "
                "since",
                hint=f"remove it first: headwater rebuild {view.name} PATH --drop --version {number}",
            )
        return number
    number = versions.following
    # One that was dropped may have left its checkpoint, and Spark would go on behind what it says.
    while not checkpoints.is_new(replace(view, version=number).checkpoint):
        number += 1
    return number


def _fingerprint(view: View, text: str) -> str:
    said = [text, view.where, view.kind, *view.key, *(f"{n}={v}" for n, v in view.options.items())]
    return hashlib.sha256("\0".join(said).encode()).hexdigest()


def _read_note(checkpoints: Checkpoints, view: View) -> str | None:
    try:
        said: dict[str, str] = json.loads(
            (Path(checkpoints.of(view.checkpoint)) / NOTE).read_text()
        )
    except FileNotFoundError:
        return None
    return said["query"]


def note(checkpoints: Checkpoints, view: View, text: str) -> None:
    if checkpoints.is_local:
        note = Path(checkpoints.of(view.checkpoint)) / NOTE
        atomic_file.write(note, json.dumps({"query": _fingerprint(view, text)}) + "\n")
