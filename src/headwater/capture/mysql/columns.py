"""What is known about a column, and how it is shown; the words of `values` and `texts`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headwater.capture.config import CaptureConfig
from headwater.capture.defaults import constant
from headwater.capture.envelope import Column
from headwater.capture.mysql import table_map as wire
from headwater.capture.mysql.table_map import Wire

Fragment = Any  # text, or a number that formats as JSON does
Convert = Callable[[Any], Fragment]

_ALIKE = {
    *(wire.TINY, wire.SHORT, wire.INT24, wire.LONG, wire.LONGLONG),
    *(wire.VARCHAR, wire.VARCHAR_COMPRESSED, wire.BLOB, wire.BLOB_COMPRESSED),
}
"""Integers and texts: of whatever width, a value is written the same."""


@dataclass(frozen=True, slots=True)
class Style:
    """How values are shown where there is a choice."""

    decimals: str = "string"
    zero_dates: str = "text"


@dataclass(frozen=True, slots=True)
class Description:
    """A column at one moment; from a table map, or from the information schema."""

    name: str
    wire: Wire
    nullable: bool
    unsigned: bool = False
    charset: str | None = None
    members: tuple[str, ...] = ()
    special: str = ""
    """uuid, inet4, inet6, vector: what MariaDB's log has as plain bytes."""
    default: str | None = field(default=None, compare=False)
    """As an SQL literal; of the table as it is now, the log does not say it."""

    @property
    def stored(self) -> str:
        return "" if self.wire.type in _ALIKE else str(list(self.wire))


@dataclass(frozen=True, slots=True)
class Field:
    """A column ready to be read. Fixed size: `code` for struct; else `length_bytes` before the value."""

    column: Column
    code: str = ""
    length_bytes: int = 0
    convert: Convert | None = None
    """None: the number itself is the fragment."""
    from_text: Convert = bytes.decode
    select: str = "{}"
    """The expression whose text `from_text` understands; {} is the column's quoted name."""


def shown(column: Description, kind: str, name: str | None = None, **more: Any) -> Column:
    connect: list[tuple[str, Any]] = [("type", kind)]
    if name is not None:
        connect += [("name", name), ("version", 1)]
    connect += more.items()
    default = constant(column.default, dict(connect))
    return Column(column.name, tuple(connect), column.nullable, default, column.stored)


def literal(text: str | None, extra: str | None, *, is_sql: bool) -> str | None:
    """A default of the information schema as SQL: MySQL shows a text without its quotes, and says of what is
    computed that it is; MariaDB shows SQL."""
    if text is None or "DEFAULT_GENERATED" in (extra or ""):
        return None
    return text if is_sql else "'" + text.replace("'", "''") + "'"


def style_of(config: CaptureConfig) -> Style:
    return Style(config.option("decimals", "string"), config.option("zero_dates", "text"))
