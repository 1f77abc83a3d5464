"""Rows as documents of OpenSearch: the mapping of an index, and what cannot be a document.

Strings are words to search in (`column`) and whole values (`column.keyword`). What a document holds is the
row as `json_rows` writes it, so that it comes back as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.targets.contract import DELETED, Kind, Misfit, Shape
from headwater.views.targets.json_rows import documents
from headwater.views.targets.texts import key_texts
from headwater.views.targets.years import far_times

BATCH = "headwater_batch"
"""Field of the documents of a view without a key: which batch has added them."""
ID_BYTES_MAX = 512
STAGED = pa.schema([("id", pa.string()), ("document", pa.string())])
"""Of the files in the staging: no document means that the row is deleted."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,200}")
_TEXT = {"type": "text", "fields": {"keyword": {"type": "keyword", "ignore_above": 8191}}}


def index_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise Misfit(
            f"{name!r} cannot be the name of an index",
            hint="name one of small letters, digits, - and _ with the option table",
        )
    return name


def mapping(shape: Shape) -> dict[str, Any]:
    fields = {field.name: _field(field.type) for field in shape.schema}
    if shape.kind is Kind.APPEND:
        fields[BATCH] = {"type": "long"}
    return {"dynamic": False, "properties": fields}


def _field(kind: pa.DataType) -> dict[str, Any]:
    t = pa.types
    if t.is_list(kind) or t.is_large_list(kind):
        return _field(kind.value_type)
    if t.is_string(kind) or t.is_large_string(kind):
        return _TEXT
    if t.is_struct(kind):
        return {"properties": {field.name: _field(field.type) for field in kind}}
    if t.is_timestamp(kind) or t.is_date(kind):
        return {"type": "date"}
    plain = (
        (t.is_integer, "long"), (t.is_boolean, "boolean"), (t.is_floating, "double"),
        (t.is_decimal, "double"), (t.is_binary, "binary"),
    )  # fmt: skip
    found = next((name for fits, name in plain if fits(kind)), None)
    return {"type": found} if found else {"type": "object", "enabled": False}


def ids(rows: pa.RecordBatch | pa.Table, key: Sequence[str]) -> list[str]:
    """Of the rows' documents: their keys. An id may not be empty, so `` is `_`, `_` is `__`, and so on."""
    return [text if text.strip("_") else f"{text}_" for text in key_texts(rows, key)]


def refused(rows: pa.RecordBatch, shape: Shape) -> Iterator[tuple[int, str]]:
    """What cannot be a document, found before it is staged."""
    if shape.kind is Kind.UPSERT:
        for number, key in enumerate(ids(rows, shape.key)):
            if len(key.encode()) > ID_BYTES_MAX:
                yield number, f"its key has more than {ID_BYTES_MAX} bytes"
    yield from far_times(rows, shape.schema.names)
    for field in shape.schema:
        if pa.types.is_floating(field.type):
            odd = pc.invert(pc.is_finite(rows.column(field.name))).fill_null(False)
            for number in pc.indices_nonzero(odd).to_pylist():
                yield number, f"{field.name} is no number"


def staged(
    shape: Shape, batch: int, part: int, rows: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Rows as ids and documents."""
    number = 0
    for each in rows:
        found: list[str | None] = list(documents(each.select(shape.schema.names)))
        if shape.kind is Kind.UPSERT:
            names = ids(each, shape.key)
            for place, gone in enumerate(each.column(DELETED).to_pylist()):
                found[place] = None if gone else found[place]
        else:
            names = [f"{batch}-{part}-{number + place}" for place in range(each.num_rows)]
            tail = f',"{BATCH}":{batch}}}'
            found = [text[:-1] + tail for text in found if text is not None]
        number += each.num_rows
        yield pa.RecordBatch.from_arrays(
            [pa.array(names), pa.array(found, pa.string())], schema=STAGED
        )
