"""Columns that make the folders of a Delta table (option `partition_by`): which can, and which values can.

Called by `target`. Their values are in no file: Delta Lake keeps them as texts, in its log and in the names
of folders. What does not come back from there as it was is refused, a type when the table is made and a
value when a row has it:

    BINARY, FLOAT, DOUBLE, nested types     no text of theirs is read back as the same value
    ''                                      comes back as null
    a negative number with decimals         deltalake writes -1.5 as -1.-5
    a text whose folder has a long name     names end at 255 bytes, and most characters take three or more
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.targets.contract import Misfit, Shape

FOLDER_BYTES_MAX = 255


def partition_columns(shape: Shape) -> list[str]:
    named = [each.strip() for each in shape.options.get("partition_by", "").split(",")]
    return [each for each in named if each]


def must_make_folders(shape: Shape) -> None:
    """`Misfit` where a column cannot."""
    for name in partition_columns(shape):
        if name not in shape.schema.names:
            raise Misfit(
                f"partition_by names {name}, which is no column of the view {shape.view!r}",
                hint=f"its columns are {', '.join(shape.schema.names)}",
            )
        kind = shape.schema.field(name).type
        if _is_inexact(kind):
            raise Misfit(
                f"{name} is {kind}, whose values do not come back from the names of folders as they were",
                hint="let partition_by name a text, a whole number, a date, a time, a boolean or a decimal",
            )


def unfit_for_folders(rows: pa.RecordBatch, shape: Shape) -> Iterator[tuple[int, str]]:
    """Rows with a value that cannot: number and reason."""
    for name in partition_columns(shape):
        column = rows.column(name)
        if pa.types.is_decimal(column.type):
            yield from _with_minus(column, name)
        elif pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            yield from _with_no_folder(column, name)


def _is_inexact(kind: pa.DataType) -> bool:
    is_binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
    fixed = pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind)
    return bool(is_binary or fixed or pa.types.is_floating(kind) or pa.types.is_nested(kind))


def _with_minus(column: pa.Array, name: str) -> Iterator[tuple[int, str]]:
    negative = pc.less(column, pa.scalar(0, column.type))
    broken = pc.and_(negative, pc.not_equal(column, pc.trunc(column)))
    for number in pc.indices_nonzero(broken.fill_null(False)).to_pylist():
        yield (
            number,
            f"{name} is negative with decimals, which deltalake cannot write into partition_by",
        )


def _with_no_folder(column: pa.Array, name: str) -> Iterator[tuple[int, str]]:
    room = FOLDER_BYTES_MAX - len(name.encode()) - 1
    texts = column.dictionary_encode()
    bad = {
        n: why for n, text in enumerate(texts.dictionary.to_pylist()) if (why := _why(text, room))
    }
    if not bad:
        return
    for number, place in enumerate(texts.indices.to_pylist()):
        if place in bad:
            yield number, f"{name} {bad[place]}"


def _why(text: str, room: int) -> str:
    if not text:
        return "is an empty text, which partition_by would make null"
    if len(quote(text, safe="")) > room:
        return "is too long for the name of a folder, which partition_by makes of it"
    return ""
