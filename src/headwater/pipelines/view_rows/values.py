"""Values of a row as JSON has them, and keys as texts: the same words as `views.targets.texts` writes. Pure.

A key of several columns is their texts with colons between; colons and backslashes inside are escaped:
`eu:17`, `a\\:b:17`.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from headwater.views.targets.texts import SEPARATOR

_PART = re.compile(r"((?:[^\\:]|\\.)*)(?::|$)", re.DOTALL)


def plain(value: Any) -> Any:
    """Integers, floats, booleans and strings are JSON's own; the rest is text, lists and objects of such."""
    if isinstance(value, datetime):
        utc = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo is not None else value
        return utc.isoformat(timespec="microseconds") + ("Z" if value.tzinfo is not None else "")
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(bytes(value)).decode()
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, date | time):
        return value.isoformat()
    return format(value, "f") if isinstance(value, Decimal) else str(value)


def key_of(row: Mapping[str, Any], key: Sequence[str]) -> str:
    """Of a row whose values are plain."""
    texts = [_text(row.get(name)) for name in key]
    if len(texts) == 1:
        return texts[0]
    return SEPARATOR.join(
        text.replace("\\", "\\\\").replace(SEPARATOR, "\\" + SEPARATOR) for text in texts
    )


def parts_of(key: str, count: int) -> list[str] | None:
    """The texts of a key's columns; None where it has not so many."""
    if count == 1:
        return [key]
    parts, at = [], 0
    while at <= len(key):
        found = _PART.match(key, at)
        if found is None:
            return None
        parts.append(re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL))
        at = found.end()
        if at == len(key):
            if key and key[-1] == SEPARATOR and found[0].endswith(SEPARATOR):
                parts.append("")
            break
    return parts if len(parts) == count else None


def order_of(row: Mapping[str, Any], key: Sequence[str]) -> tuple[Any, ...]:
    """For sorting rows by key: numbers before texts, each among themselves."""
    values = [row.get(name) for name in key]
    return tuple(
        (0, value, "") if isinstance(value, int | float) else (1, 0, _text(value))
        for value in values
    )


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
