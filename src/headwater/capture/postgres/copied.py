"""Rows of COPY's text format as JSON fragments; pure.

Called by `snapshot`. A line is a row, its fields are separated by tabs; \\N is null, and a backslash
escapes tab, newline, carriage return, backslash and the like. The values have the same text form as in
the stream, so that a row looks the same whichever way it came.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from headwater.capture.envelope import NULL
from headwater.capture.postgres.types import Converter

_ESCAPE = re.compile(rb"\\(.)", re.DOTALL)
_MEANS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


def rows(data: bytes, converters: Sequence[Converter]) -> list[tuple[str, ...]]:
    """All rows of whole lines, worked on column by column."""
    if not data:
        return []
    lines = data.split(b"\n")
    if lines.pop():
        raise ValueError("the last row of a COPY has no end")
    if not converters:
        return [() for _ in lines]
    table = [line.split(b"\t") for line in lines]
    columns = zip(*table, strict=True)
    if len(table[0]) != len(converters):
        raise ValueError(f"{len(table[0])} fields, but {len(converters)} columns")
    escaped = b"\\" in data
    shown = [
        _column(column, convert, escaped)
        for column, convert in zip(columns, converters, strict=True)
    ]
    return list(zip(*shown, strict=True))


def _column(fields: Sequence[bytes], convert: Converter, escaped: bool) -> list[str]:
    if not escaped:
        return [convert(field) for field in fields]
    return [
        convert(field)
        if b"\\" not in field
        else NULL
        if field == b"\\N"
        else convert(_ESCAPE.sub(_meaning, field))
        for field in fields
    ]


def _meaning(match: re.Match[bytes]) -> bytes:
    return _MEANS.get(match[1], match[1])
