"""Events: applications whose truth is the history of what happened, in the log.

A program declares an `Aggregate` (commands, events, `decide`, `apply`) and opens it with `Application`
(asyncio) or `BlockingApplication` (threads). The way of a command:

    application ─▶ owner's desk ─▶ ledger decides ─▶ writing ─▶ line ─▶ log ─▶ answer
    (or forwarding ─▶ inbox)       (pure)            one batch per round trip

`claim` fences earlier owners, `recovery` reads what they wrote, `membership` says whose a partition is.
`Reader` looks at histories, `saga` connects aggregates, `keys` guards personal data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headwater.lazy_names import lazy_names

if TYPE_CHECKING:
    from headwater.events import frames as frames
    from headwater.events.aggregate import Aggregate as Aggregate
    from headwater.events.answers import Accepted as Accepted
    from headwater.events.answers import Answer as Answer
    from headwater.events.answers import Refused as Refused
    from headwater.events.application import Application as Application
    from headwater.events.blocking_application import BlockingApplication as BlockingApplication
    from headwater.events.errors import EventsError as EventsError
    from headwater.events.errors import OutcomeUnknown as OutcomeUnknown
    from headwater.events.history import Entry as Entry
    from headwater.events.history import History as History
    from headwater.events.history import Reader as Reader
    from headwater.events.keys import Keys as Keys
    from headwater.events.ledger import Held as Held
    from headwater.events.options import ApplicationOptions as ApplicationOptions
    from headwater.events.options import SendOptions as SendOptions
    from headwater.events.personal import Personal as Personal
    from headwater.events.saga import Saga as Saga
    from headwater.events.saga import Send as Send
    from headwater.events.upcasters import upcaster as upcaster

_HOME = {
    "Accepted": "headwater.events.answers",
    "Aggregate": "headwater.events.aggregate",
    "Answer": "headwater.events.answers",
    "Application": "headwater.events.application",
    "ApplicationOptions": "headwater.events.options",
    "BlockingApplication": "headwater.events.blocking_application",
    "Entry": "headwater.events.history",
    "EventsError": "headwater.events.errors",
    "Held": "headwater.events.ledger",
    "History": "headwater.events.history",
    "Keys": "headwater.events.keys",
    "OutcomeUnknown": "headwater.events.errors",
    "Personal": "headwater.events.personal",
    "Reader": "headwater.events.history",
    "Refused": "headwater.events.answers",
    "Saga": "headwater.events.saga",
    "Send": "headwater.events.saga",
    "SendOptions": "headwater.events.options",
    "frames": "headwater.events.frames",
    "upcaster": "headwater.events.upcasters",
}
_OLD = {
    "Running": "BlockingApplication",
}
"""Names of the release before, which warn."""

__all__ = [
    "Accepted",
    "Aggregate",
    "Answer",
    "Application",
    "ApplicationOptions",
    "BlockingApplication",
    "Entry",
    "EventsError",
    "Held",
    "History",
    "Keys",
    "OutcomeUnknown",
    "Personal",
    "Reader",
    "Refused",
    "Saga",
    "Send",
    "SendOptions",
    "frames",
    "upcaster",
]

__getattr__, __dir__ = lazy_names(__name__, _HOME, old=_OLD)
