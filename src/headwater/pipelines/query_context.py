"""What the queries of an application share. Made by `application`, for `query`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from headwater.client.log import Log
from headwater.pipelines.builder import Built
from headwater.pipelines.checkpoints import Checkpoints
from headwater.pipelines.context import Wanted
from headwater.pipelines.current_version import current_version
from headwater.pipelines.declarations import View


@dataclass(frozen=True)
class QueryContext:
    """What every query of an application shares."""

    build: Callable[[View], Built]
    tune: Callable[[Built], None]
    """Sets what the session must have when this query starts."""
    checkpoints: Checkpoints
    log: Log
    say: Callable[[str], None]
    once: bool = False
    alive: Callable[[], bool] = lambda: True
    """Whether Spark itself is there."""
    renew: Callable[[View, int], View] = lambda view, version: replace(view, version=version)
    """The view at another version, as its file says it now."""
    current: Callable[[View], int | None] = current_version
    """The version that the query is to run; a rebuild goes on with its own, whatever readers see."""
    hold: Callable[[View], Any | None] = lambda _: nullcontext()
    """Takes a version's checkpoint, which a rebuild may still have (None)."""
    wanted: Callable[[str], Wanted] = lambda _: Wanted()
