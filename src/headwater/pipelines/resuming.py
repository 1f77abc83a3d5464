"""Which version a rebuild builds: one that was begun by the same query and not finished, or a new one.

A note in the version's checkpoint folder says by which query it was begun: the text of its file, its target
and key. Going on with another query would leave half of the rows as the old one made them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from headwater.log import atomic_file
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.declared import View
from headwater.pipelines.errors import PipelineError
from headwater.views.versions import Versions

NOTE = "rebuild.json"


def number_for(versions: Versions, view: View, text: str, checkpoints: Checkpoints) -> int:
    """The version that an interrupted rebuild has begun by the same query, or a new one."""
    if not checkpoints.is_local:
        return versions.following
    for number in reversed(versions.others):
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
    return versions.following


def _fingerprint(view: View, text: str) -> str:
    said = [text, view.to, view.kind, *view.key, *(f"{n}={v}" for n, v in view.options.items())]
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
