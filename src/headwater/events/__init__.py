"""Events: applications whose truth is the history of what happened, in the log.

A program declares an `Aggregate` (commands, events, `decide`, `apply`) and opens it with `Application`
(asyncio) or `Running` (threads). The way of a command:

    application ─▶ owner's desk ─▶ ledger decides ─▶ writing ─▶ line ─▶ log ─▶ answer
    (or forwarding ─▶ inbox)       (pure)            one batch per round trip

`claim` fences earlier owners, `restoring` reads what they wrote, `membership` says whose a partition is.
`Reader` looks at histories, `saga` connects aggregates, `keys` guards personal data.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.events.aggregate import Aggregate as Aggregate
    from headwater.events.answers import Accepted as Accepted
    from headwater.events.answers import Refused as Refused
    from headwater.events.application import Application as Application
    from headwater.events.blocking import Running as Running
    from headwater.events.upcasting import upcaster as upcaster

_HOME = {
    "Accepted": "answers",
    "Aggregate": "aggregate",
    "Application": "application",
    "Refused": "answers",
    "Running": "blocking",
    "upcaster": "upcasting",
}

__all__ = ["Accepted", "Aggregate", "Application", "Refused", "Running", "upcaster"]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'headwater.events' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"headwater.events.{_HOME[name]}"), name)
    return value
