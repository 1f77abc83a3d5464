"""Rows of a view as a page shows them: one by its key, those that fit words, page by page, or as they were.

As they were the application that runs computes them, for `headwater rows` in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass

from headwater.client.errors import NotThere
from headwater.client.position import Position
from headwater.errors import HeadwaterError
from headwater.pipelines.declarations import View
from headwater.pipelines.handles import handle
from headwater.pipelines.view_rows import rows_of
from headwater.project.parent_death import ends_with_parent

LIMIT = 50
WAIT_S = 10.0
PAST_S = 120.0
_PAST_MOST = threading.BoundedSemaphore(2)
"""The application's cores are for its views."""


class NotComputed(HeadwaterError):
    """Rows as they were could not be had."""


@dataclass(frozen=True)
class Asked:
    """A key, words, or neither: then rows behind `after`. First the view must have come to `position`."""

    key: str = ""
    words: str = ""
    after: str | None = None
    position: str = ""


@dataclass(frozen=True)
class Found:
    """`position`: of the same moment; `after`: where the next page begins, if there is one."""

    rows: tuple[dict[str, object], ...]
    position: Position | None
    after: str | None = None
    remarks: tuple[str, ...] = ()
    is_past: bool = False


def read(view: View, asked: Asked) -> Found:
    """Raises HeadwaterError where the store, the key or the position will not do."""
    rows = rows_of(view)
    if asked.position:
        handle(view).wait(Position.parse(asked.position), WAIT_S)
    if asked.key:
        at, row = rows.get(asked.key)
        if row is None:
            raise NotThere(f"{view.name} has no row {asked.key[:100]!r}", hint=_how_far(at))
        return Found((row.fields,), at)
    if asked.words:
        at, fitting = rows.search(asked.words, LIMIT, 0)
        return Found(tuple(fitting), at)
    at, page = rows.page(asked.after, LIMIT + 1)
    shown = page[:LIMIT]
    more = shown[-1].key if len(page) > LIMIT else None
    return Found(tuple(each.fields for each in shown), at, more)


def _how_far(position: Position | None) -> str:
    return "the view has not begun" if position is None else f"the view is at {position}"


def read_past(words: tuple[str, ...], environment: Mapping[str, str]) -> Found:
    """What `headwater rows VIEW --as-of …` says; `words` without `--json`."""
    if not _PAST_MOST.acquire(blocking=False):
        raise NotComputed(
            "rows of the past are being computed already", hint="try again in a while"
        )
    command = ends_with_parent(sys.executable, "-m", "headwater")
    try:
        ended = subprocess.run(
            [*command, *words, "--json"],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PAST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotComputed(f"it took longer than {PAST_S:.0f} s and was stopped") from None
    finally:
        _PAST_MOST.release()
    if ended.returncode != 0:
        said = ended.stderr.decode("utf-8", "replace").strip().removeprefix("headwater: ")
        raise NotComputed(said or f"headwater rows ended with {ended.returncode}")
    found = json.loads(ended.stdout)
    position = Position.parse(found["position"]) if found["position"] else None
    remarks = tuple(found["remarks"])
    if not found["all"]:
        remarks = (*remarks, f"These are the first {len(found['rows'])} rows.")
    return Found(tuple(found["rows"]), position, remarks=remarks, is_past=True)
