"""Patterns for transactional ids (ListTransactions 2+), in time that no expression can blow up.

The machine is the one for topic names, whose `.` and negated classes know only the letters of such
names. So an id with other letters is looked at twice: as it is, and with `_` in their place.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.broker.groups.consumer.regex import BadRegex, compiled
from headwater.broker.groups.consumer.regex_syntax import ALL


class BadPattern(Exception):
    """Not a regular expression that RE2 would take."""


def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a whole id matches; an empty pattern takes all. Raises BadPattern."""
    if not pattern:
        return lambda name: True
    try:
        machine = compiled(pattern)
    except BadRegex as error:
        raise BadPattern(str(error)) from error

    def matches(name: str) -> bool:
        plain = "".join(letter if letter in ALL else "_" for letter in name)
        return bool(machine.matching([name]) or (plain != name and machine.matching([plain])))

    return matches
