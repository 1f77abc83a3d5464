"""BSON as extended JSON and back: what positions, requests and people have of keys and queries; pure.

Called by `driver` for tokens and `_id`s, and by `source` for the documents that somebody asks for.
"""

from __future__ import annotations

from typing import Any

from bson import json_util
from bson.codec_options import DatetimeConversion

from headwater.capture.errors import Misconfigured
from headwater.capture.requests import Entry
from headwater.capture.source import Range

_OPTIONS = json_util.JSONOptions(
    json_mode=json_util.JSONMode.CANONICAL, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


def to_json(value: Any) -> str:
    """Any BSON value as canonical extended JSON: comes back as the same type."""
    return json_util.dumps(value, json_options=_OPTIONS)


def from_json(text: str) -> Any:
    return json_util.loads(text, json_options=_OPTIONS)


def condition(within: Range) -> str:
    """A query in extended JSON for some of a collection's documents."""
    parts = [] if within.where is None else [_given("where", within.where)]
    bounds = {"$gte": within.first, "$lte": within.last}
    asked = {sign: _given("key", value) for sign, value in bounds.items() if value is not None}
    if asked:
        parts.append({"_id": asked})
    return to_json(parts[0] if len(parts) == 1 else {"$and": parts})


def _given(what: str, text: str) -> object:
    """As it was typed: extended JSON; a key may be bare text."""
    try:
        return from_json(text)
    except (ValueError, TypeError):
        if what == "key":
            return text
        raise Misconfigured(
            f"{text!r} is no query of MongoDB in JSON",
            hint="""for example --where '{"n": {"$gt": 5}}'""",
        ) from None


def asked(wanted: list[Entry]) -> dict[str, str | None]:
    """Collection → which of its documents, None being all, for requests that came together."""
    found: dict[str, str | None] = {}
    for one in wanted:
        name, where = (one, None) if isinstance(one, str) else (one["table"], one["where"])
        before = found.get(name, where)
        if where is None or before is None or before == where:
            found[name] = before and where
        else:
            found[name] = to_json({"$or": [from_json(before), from_json(where)]})
    return found
