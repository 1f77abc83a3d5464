"""Views: derived systems that follow the log, exactly once, at a known position.

    target      the contract that every system meets; registry: which one a view's `to` means
    applying    a micro-batch into its target (ordering, staging, dead letters)
    position    how far a view is in the log; waiting: until it has what was written
    versions    several of a view side by side; verifying, mending: compared with the log, put right
    folding     one key's changes in a topic, folded up to a moment
    tables      views over tables, kept current row by row

For applications: `headwater.views.View(NAME, to=TARGET).wait(POSITION, timeout)`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.views.position import Position as Position
    from headwater.views.waiting import View as View
    from headwater.views.waiting import after as after
    from headwater.views.waiting import wait as wait

__all__ = ["Position", "View", "after", "wait"]

_HOME = {"Position": "position", "View": "waiting", "after": "waiting", "wait": "waiting"}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'headwater.views' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"headwater.views.{_HOME[name]}"), name)
    return value
