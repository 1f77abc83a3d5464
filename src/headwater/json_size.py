"""How many values a text of JSON has, before anybody makes them; pure.

Called by whoever decodes JSON of strangers (`browse.decoder`, `schemas.values.json`, `edges.json_values`). A
byte of `[[],[],…]` becomes 24 in Python's memory, and a body may be packed besides: the bytes that came are
no bound.
"""

from __future__ import annotations

import re

VALUES_MAX = 1_000_000
"""About 60 MB at most; of a body in many records, of each of them."""
MANY = f"it has more than {VALUES_MAX} values"
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
_SOME_STRINGS = re.compile(rb'(?:[^"]*+"(?:[^"\\]|\\.)*+"){1,1000}+', re.DOTALL)
_BEGIN = b",:[{"


def many(text: bytes) -> str | None:
    """Why it cannot be looked at as a whole; None where it can."""
    if len(text) <= VALUES_MAX or _begun(text) <= VALUES_MAX:
        return None
    found = place = 0
    while found <= VALUES_MAX and (some := _SOME_STRINGS.match(text, place)):
        found += _begun(_STRING.sub(b'""', some[0]))  # a few at a time: each takes memory
        place = some.end()
    if found + _begun(text[place:]) <= VALUES_MAX:
        return None  # they were in texts
    return MANY


def _begun(text: bytes) -> int:
    """At least as many values as there are: before each but the first is one of these."""
    return sum(text.count(bytes((each,))) for each in _BEGIN)
