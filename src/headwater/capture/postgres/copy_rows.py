"""Rows of COPY's text format as JSON fragments; pure.

Called by `snapshot`. A line is a row, its fields are separated by tabs; \\N is null, and a backslash
escapes tab, newline, carriage return, backslash and the like. The values have the same text form as in
the stream, so that a row looks the same whichever way it came.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.capture.envelope import NULL, quote
from headwater.capture.postgres.types import Converter, number, quoted, text

_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_MEANS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def rows(data: bytes, converters: Sequence[Converter]) -> list[tuple[str, ...]]:
    """All rows of whole lines, worked on column by column."""
    if not data:
        return []
    lines = data.decode().split("\n")
    if lines.pop():
        raise ValueError("the last row of a COPY has no end")
    if not converters:
        return [() for _ in lines]
    table = [line.split("\t") for line in lines]
    columns = zip(*table, strict=True)
    if len(table[0]) != len(converters):
        raise ValueError(f"{len(table[0])} fields, but {len(converters)} columns")
    escaped = b"\\" in data
    shown = [
        _column(column, convert, escaped)
        for column, convert in zip(columns, converters, strict=True)
    ]
    return list(zip(*shown, strict=True))


def _column(fields: Sequence[str], convert: Converter, escaped: bool) -> Sequence[str]:
    if escaped and any("\\" in field for field in fields):
        return [
            convert(field.encode())
            if "\\" not in field
            else NULL
            if field == "\\N"
            else convert(_ESCAPE.sub(_meaning, field).encode())
            for field in fields
        ]
    # The common types without a detour through bytes.
    if convert is number:
        return fields
    if convert is text:
        return [quote(field) for field in fields]
    if convert is quoted:
        return [f'"{field}"' for field in fields]
    return [convert(field.encode()) for field in fields]


def _meaning(match: re.Match[str]) -> str:
    return _MEANS.get(match[1], match[1])
