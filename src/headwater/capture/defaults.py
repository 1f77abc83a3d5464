"""What a database puts into a column where nobody gives a value, where that is a constant; pure.

A schema that says so lets a NOT NULL column be added: rows of before have that value, in the database and
for whoever reads their records by the new schema. What is computed (a time, a sequence) is no such default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

Default: TypeAlias = str | int | float | bool | None
_QUOTED = re.compile(r"'((?:[^']|'')*)'", re.S)
_WHOLE = re.compile(r"[+-]?\d{1,19}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_TRUTHS = {"1": True, "true": True, "0": False, "false": False}


def constant(text: str | None, connect: Mapping[str, object]) -> Default:
    """Of an SQL literal, as a value of this type of Kafka Connect's; None: it is none, or of no such type."""
    if text is None or "name" in connect:  # times and the like have forms of their own
        return None
    kind, said = str(connect["type"]), _bare(text)
    quoted = _QUOTED.fullmatch(said)
    value = said if quoted is None else quoted[1].replace("''", "'")
    if kind == "string":
        return value if quoted is not None else None
    if kind in _BITS and _WHOLE.fullmatch(value):
        number = int(value)
        return number if -(1 << _BITS[kind]) <= number < 1 << _BITS[kind] else None
    if kind in ("float", "double") and _NUMBER.fullmatch(value):
        return float(value)
    return _TRUTHS.get(value.lower()) if kind == "boolean" else None


def _bare(text: str) -> str:
    """Without parentheses around it."""
    found = text.strip()
    while found.startswith("(") and found.endswith(")"):
        found = found[1:-1].strip()
    return found
