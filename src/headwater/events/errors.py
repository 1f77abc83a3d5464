"""What can go wrong between a command and its answer, by whose fault it was."""

from __future__ import annotations

from headwater.deprecation import renamed
from headwater.errors import HeadwaterError

__getattr__ = renamed(__name__, {"Fenced": "OwnerFenced"})


class EventsError(HeadwaterError):
    """The root of the library's errors."""


class BadDefinition(EventsError):
    """An aggregate that cannot work as it is declared; the programmer's mistake."""


class BadTopic(EventsError):
    """A topic whose settings would lose history, or break its order."""


class UnknownEvent(EventsError):
    """The log holds an event that this program has no class and no upcaster for."""


class BadCommand(EventsError):
    """A command that cannot be written, or read again, as it was said; the caller's mistake."""


class IdReused(EventsError):
    """The aggregate has decided another command under this id: this one was not decided."""


class OwnerFenced(EventsError):
    """Another process decides for this partition now."""


class Busy(EventsError):
    """Too many commands wait already: this one was not decided, and may be sent again later."""


class Stopped(EventsError):
    """The partition's log cannot be read as it is, so that nothing is decided there, by this program."""


class OutcomeUnknown(EventsError):
    """No answer in time. The command may still be decided; sent again with its id, it is decided once."""


class DecideFailed(EventsError):
    """`decide` or `apply` raised something, or its events could not be read again: nothing was written."""


class Closed(EventsError):
    """The application was closed before the command was answered."""


REPLIED: dict[str, type[EventsError]] = {
    "Busy": Busy,
    "Fenced": OwnerFenced,
    "IdReused": IdReused,
    "Stopped": Stopped,
    "UnknownEvent": UnknownEvent,
}
"""By the names under which owners tell other processes of them, whatever their version."""


def replied_name(error: BaseException) -> str:
    named = (name for name, kind in REPLIED.items() if type(error) is kind)
    return next(named, type(error).__name__)
