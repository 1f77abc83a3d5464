"""Patterns for transactional ids (ListTransactions 2+), in time that no expression can blow up.

The machine is the one for topic names, whose `.` and negated classes know only the letters of such
names. So an id with other letters is looked at twice: as it is, and with `_` in their place.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.broker.groups.consumer.regex import BadRegex, compiled
from headwater.broker.groups.consumer.regex_syntax import ALL


class BadPattern(Exception):
    """Not a regular expression that RE2 would take."""


def matching(pattern: str, names: Iterable[str]) -> set[str]:
    """Those ids that match as a whole; an empty pattern takes all. Raises BadPattern."""
    if not pattern:
        return set(names)
    spelt: dict[str, list[str]] = {}
    for name in names:
        plain = "".join(letter if letter in ALL else "_" for letter in name)
        for each in {name, plain}:
            spelt.setdefault(each, []).append(name)
    try:
        return {name for found in compiled(pattern).matching(spelt) for name in spelt[found]}
    except BadRegex as error:
        raise BadPattern(str(error)) from error
