"""What one record says about its row: Debezium's envelope, a plain row, or a tombstone; pure.

`state` folds these. A value is an envelope if it is a JSON object with `op` and `before` or `after`, also
inside the `payload` of a converter that adds schemas: the rule of `hw.table`. Columns that the database
did not send (`__debezium_unavailable_value`) keep what they were.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

UNAVAILABLE = "__debezium_unavailable_value"
PUT, TOMBSTONE, TRUNCATE = "put", "tombstone", "t"
_NEITHER = "m"


@dataclass(frozen=True)
class Said:
    """`op`: Debezium's letter, or `put` and `tombstone` of plain rows; `row`: what there is after it."""

    op: str
    row: Any
    before: Any = None


def said_by(value: bytes | None) -> Said | None:
    """None for an envelope that is about no row (a logical message)."""
    if value is None:
        return Said(TOMBSTONE, None)
    read = _read(value)
    inner = read["payload"] if _is_wrapped(read) else read
    if not _is_envelope(inner):
        return Said(PUT, inner)
    op = inner["op"]
    if op == _NEITHER:
        return None
    gone = op in ("d", TRUNCATE)
    return Said(op, None if gone else inner.get("after"), inner.get("before"))


def completed(row: Any, known: Any) -> Any:
    """The row with the columns that were not sent as they are known to be."""
    if not isinstance(row, dict) or UNAVAILABLE not in row.values():
        return row
    known = known if isinstance(known, dict) else {}
    return {name: known.get(name, v) if v == UNAVAILABLE else v for name, v in row.items()}


def difference(before: Any, after: Any) -> dict[str, list[Any]]:
    """Column → [before, after], of those that differ; a value that is no row counts as one column."""
    old = before if isinstance(before, dict) else {} if before is None else {"": before}
    new = after if isinstance(after, dict) else {} if after is None else {"": after}
    names = dict.fromkeys([*new, *old])
    return {
        n: [old.get(n), new.get(n)]
        for n in names
        if (n in old, old.get(n)) != (n in new, new.get(n))
    }


def _read(value: bytes) -> Any:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_wrapped(read: Any) -> bool:
    return isinstance(read, dict) and "payload" in read and "schema" in read


def _is_envelope(read: Any) -> bool:
    if not isinstance(read, dict) or not isinstance(read.get("op"), str):
        return False
    return "before" in read or "after" in read
