"""Rows as documents of a search index: which field a column becomes, and what cannot become one.

    text TOKENIZER   strings and lists of strings: words
    json TOKENIZER   structs and maps: words, asked as in column.name:word
    integer, unsigned, float, boolean, date, and lists of these: values and ranges
    stored           the rest: only kept, not searched in

Tasks make the documents, so that the commit only has to hand them over.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import tantivy

from headwater.views.targets.contract import DELETED, Kind, Misfit, Shape
from headwater.views.targets.json_rows import from_objects, objects
from headwater.views.targets.search.index import BOOK, KEY, ROW
from headwater.views.targets.search.words import words
from headwater.views.targets.texts import key_texts
from headwater.views.targets.years import far_times

STAGED = pa.schema([(KEY, pa.string()), ("document", pa.string())])
"""Of the files in the staging: no document means that the key's row is deleted."""
KEY_BYTES_MAX = 65_530
"""A longer term is left out by tantivy, so the row could not be found again."""
_LEAST, _MOST = (
    pa.scalar(moment.replace(microsecond=0), pa.timestamp("us", "UTC"))
    for moment in (tantivy.MIN_DATETIME, tantivy.MAX_DATETIME)
)
TOKENIZERS = ("default", "en_stem", "whitespace", "raw")
_DUMP = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def fields(shape: Shape) -> dict[str, str]:
    """What each column becomes."""
    tokenizer = shape.options.get("tokenizer", "default")
    if tokenizer not in TOKENIZERS:
        raise Misfit(f"there is no tokenizer {tokenizer!r}", hint=f"use {', '.join(TOKENIZERS)}")
    for name in shape.schema.names:
        if name in (KEY, ROW, BOOK) or not tantivy.SchemaBuilder.is_valid_field_name(name):
            raise Misfit(
                f"the column {name!r} cannot be a field of a search index", hint="rename it"
            )
    return {field.name: _kind(field.type, tokenizer) for field in shape.schema}


def _kind(kind: pa.DataType, tokenizer: str) -> str:
    t = pa.types
    if _is_list(kind):
        inner = _kind(kind.value_type, tokenizer)
        return "stored" if inner.startswith("json") or _is_list(kind.value_type) else inner
    if t.is_string(kind) or t.is_large_string(kind):
        return f"text {tokenizer}"
    if t.is_struct(kind):
        return f"json {tokenizer}"
    if t.is_timestamp(kind) or t.is_date(kind):
        return "date"
    plain = (
        (t.is_unsigned_integer, "unsigned"), (t.is_integer, "integer"), (t.is_boolean, "boolean"),
        (t.is_floating, "float"), (t.is_decimal, "float"),
    )  # fmt: skip
    return next((name for fits, name in plain if fits(kind)), "stored")


def schema(fields: Mapping[str, str]) -> Any:
    """The schema of an index with these fields."""
    builder = tantivy.SchemaBuilder()
    builder.add_text_field(KEY, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_text_field(BOOK, stored=True, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field(ROW, stored=True)
    for name, kind in fields.items():
        word, _, tokenizer = kind.partition(" ")
        if word == "text":
            builder.add_text_field(name, tokenizer_name=tokenizer)
        elif word == "json":
            builder.add_json_field(name, tokenizer_name=tokenizer)
        elif word != "stored":
            getattr(builder, f"add_{word}_field")(name, indexed=True, fast=True)
    return builder.build()


def refused(rows: pa.RecordBatch, shape: Shape) -> Iterator[tuple[int, str]]:
    """What an index cannot take, found before it is staged."""
    if shape.kind is Kind.UPSERT:
        for number, key in enumerate(key_texts(rows, shape.key)):
            if len(key) > KEY_BYTES_MAX // 4 and len(key.encode()) > KEY_BYTES_MAX:
                yield number, f"its key has more than {KEY_BYTES_MAX} bytes"
    yield from far_times(rows, shape.schema.names)
    for field in shape.schema:
        if _kind(field.type, "default") == "date":
            for number in _beyond(rows.column(field.name), _LEAST, _MOST):
                yield number, f"{field.name} is not between 1677 and 2262"


def _beyond(column: pa.Array, least: pa.Scalar, most: pa.Scalar) -> list[int]:
    """The rows with a time outside; in a list, any."""
    owners = None
    if _is_list(column.type):
        owners = pc.list_parent_indices(column)
        column = pc.list_flatten(column)
    times = column.cast(pa.timestamp("us")).cast(least.type)
    # The least has a fraction of a second, which is cut off here.
    far = pc.or_(pc.less_equal(times, least), pc.greater(times, most)).fill_null(False)
    found = pc.indices_nonzero(far)
    numbers: list[int] = (found if owners is None else owners.take(found).unique()).to_pylist()
    return numbers


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def staged(shape: Shape, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Rows as keys and documents."""
    kinds = fields(shape)
    changed = {field.name for field in shape.schema if not _is_as_in_row(field.type)}
    for batch in rows:
        keyed = shape.kind is Kind.UPSERT
        keys = key_texts(batch, shape.key) if keyed else [""] * batch.num_rows
        gone = batch.column(DELETED).to_pylist() if keyed else [False] * batch.num_rows
        found = [
            None if deleted else _document(row, key if keyed else None, kinds, changed)
            for row, key, deleted in zip(
                objects(batch.select(shape.schema.names)), keys, gone, strict=True
            )
        ]
        yield pa.RecordBatch.from_arrays(
            [pa.array(keys), pa.array(found, pa.string())], schema=STAGED
        )


def _is_as_in_row(kind: pa.DataType) -> bool:
    """Whether tantivy reads a value as the row has it, so that it is written once and not twice."""
    t = pa.types
    as_it_is = (t.is_integer, t.is_floating, t.is_boolean, t.is_string, t.is_large_string)
    return any(fits(kind) for fits in as_it_is) or (t.is_timestamp(kind) and kind.tz is not None)


def _document(
    row: dict[str, Any], key: str | None, kinds: Mapping[str, str], changed: Collection[str]
) -> str:
    kept = _DUMP(row)
    same = kept.isascii()  # as most are: then no text has to be looked at
    own: dict[str, Any] = {ROW: base64.b64encode(kept.encode()).decode()}
    if key is not None:
        own[KEY] = key
    plain = {
        name: value if same else _worded(value, kinds[name])
        for name, value in row.items()
        if value is not None and name not in changed and not _is_no_number(value, kinds[name])
    }
    fields = kept if same and len(plain) == len(row) else _DUMP(plain)
    for name in changed:
        value, kind = row[name], kinds[name]
        if value is None or kind == "stored":
            continue
        values = value if isinstance(value, list) else [value]
        values = values if same else [_worded(each, kind) for each in values]
        found = (_value(each, kind) for each in values if each is not None)
        own[name] = [each for each in found if each is not None]
    return f"{fields[:-1]}{',' if plain else ''}{_DUMP(own)[1:]}"


def _worded(value: Any, kind: str) -> Any:
    what, _, tokenizer = kind.partition(" ")
    return words(value, tokenizer) if what in ("text", "json") else value


def _is_no_number(value: Any, kind: str) -> bool:
    """A float that JSON has only as text, such as nan: nothing to search for."""
    return kind == "float" and isinstance(value, str)


def _value(value: Any, kind: str) -> Any:
    """As tantivy reads it from JSON; None where it has nothing to compare, as with nan."""
    if kind == "float":
        number = float(value)
        return number if math.isfinite(number) else None
    if kind == "date":
        moment = value if "T" in value else f"{value}T00:00:00"
        return moment if moment.endswith("Z") else f"{moment}Z"
    return value


def keys(wanted: pa.Table, shape: Shape) -> list[str]:
    return list(dict.fromkeys(key_texts(wanted, shape.key)))


def batches(
    rows: Iterator[dict[str, Any]], schema: pa.Schema, size: int
) -> Iterator[pa.RecordBatch]:
    """Rows as they were before they became documents."""
    while some := list(islice(rows, size)):
        yield from_objects(some, schema)
