"""The query of POST /topics/{topic}, read strictly: a misspelt name is told, and not passed over; pure."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import parse_qsl

from headwater.browse.errors import Misunderstood
from headwater.edges.hooks.config import nearest

_NAMES = ("key", "key_field", "partial")
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


class Query(NamedTuple):
    key: str | None = None
    key_field: str | None = None
    partial: bool = False


_NOTHING = Query()


def asked(text: bytes) -> Query:
    """Raises Misunderstood."""
    if not text:
        return _NOTHING
    try:
        pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True, errors="strict")
    except (UnicodeDecodeError, ValueError):
        raise Misunderstood("the query is no UTF-8 in percent signs") from None
    given = dict(pairs)
    for name in given:
        if name not in _NAMES:
            raise Misunderstood(f"there is no parameter {name[:50]!r}{nearest(name, _NAMES)}")
    if len(pairs) > len(given):
        raise Misunderstood("a parameter is given twice")
    if given.get("key_field") == "":
        raise Misunderstood("key_field is empty", hint="name a field, as in key_field=id")
    partial = given.get("partial", "false").lower()
    if partial not in _TRUTH:
        raise Misunderstood(f"partial is true or false, not {partial[:50]!r}")
    return Query(given.get("key"), given.get("key_field"), _TRUTH[partial])
