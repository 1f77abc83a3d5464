"""What can go wrong between a command and its answer, by whose fault it was."""

from __future__ import annotations

from headwater.errors import HeadwaterError


class EventsError(HeadwaterError):
    """The root of the library's errors."""


class BadDefinition(EventsError):
    """An aggregate that cannot work as it is declared; the programmer's mistake."""


class BadTopic(EventsError):
    """A topic whose settings would lose history, or break its order."""


class UnknownEvent(EventsError):
    """The log holds an event that this program has no class and no upcaster for."""


class Fenced(EventsError):
    """Another process decides for this partition now."""


class Busy(EventsError):
    """Too many commands wait already: this one was not decided, and may be sent again later."""


class Stopped(EventsError):
    """The partition's log cannot be read as it is, so that nothing is decided there, by this program."""


class OutcomeUnknown(EventsError):
    """No answer in time. The command may still be decided; sent again with its id, it is decided once."""


class DecideFailed(EventsError):
    """`decide` or `apply` raised something: nothing was written."""


class Closed(EventsError):
    """The application was closed before the command was answered."""
