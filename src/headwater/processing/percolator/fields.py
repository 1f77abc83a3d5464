"""The fields of documents, and the queries over them, as tantivy has them. In workers and on the driver.

Columns become fields as in the search view (docs/targets.md), so a query means the same in both.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.errors import HeadwaterError
from headwater.processing.percolator.needs import Needs, needs, unanswerable

if TYPE_CHECKING:
    from pyspark.sql.types import StructField, StructType

NUMBER = "_number"
"""The field of a document's number within its batch."""
STORED = "stored"
"""The kind of a column that is not searched in."""
# tantivy rounds twice when it reads a number of more digits than a DOUBLE has, or a power of ten, from JSON.
_LONG_NUMBER = re.compile(r"[\d.]{16,}|\d[eE][-+\d]")
WRITER_BYTES = 50_000_000
PARSED_MOST = 200_000


class BadQuery(HeadwaterError):
    """A text that is no query over these fields."""


class Parsed(NamedTuple):
    """A query, and the words that must occur for it to find anything."""

    query: Any
    needs: Needs


@dataclass(frozen=True)
class Fields:
    """Name and kind of each field, see `headwater.views.targets.search.documents`."""

    kinds: tuple[tuple[str, str], ...]

    @property
    def schema(self) -> Any:
        return _schema(self)

    @property
    def words(self) -> list[str]:
        """The fields in which words without a field's name are looked for."""
        return [name for name, kind in self.kinds if kind.startswith("text")]

    @property
    def texts(self) -> dict[int, str]:
        """The fields that are plain words, by their number in the schema."""
        return {n: name for n, (name, kind) in enumerate(self.kinds) if kind.startswith("text")}

    def parse(self, text: str) -> Parsed:
        """BadQuery says what is wrong with it."""
        return _parse(self, composed(text))

    def admit(self, text: str) -> None:
        """BadQuery says why a query that is to be stored would not find what it asks for."""
        parsed = self.parse(text)
        if text.strip() and parsed.needs == (frozenset(),):
            raise BadQuery(f"cannot search for {text!r}: there is no word in it")
        reason = unanswerable(text, repr(parsed.query))
        if reason is not None:
            raise BadQuery(f"cannot search for {text!r}: {reason}")
        try:
            _probe(self).search(parsed.query, 1, count=False, order_by_field=NUMBER)
        except ValueError as error:  # some are only refused when they are run
            raise BadQuery(f"cannot search for {text!r}: {error}") from error

    def index(self, documents: Sequence[str]) -> Any:
        """A searcher over documents, each a JSON object, that are known by their place in the list."""
        import tantivy

        index = tantivy.Index(self.schema)
        writer = index.writer(WRITER_BYTES, 1)
        for number, given in enumerate(documents):
            self._add(writer, number, composed(given))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        return index.searcher()

    def _add(self, writer: Any, number: int, document: str) -> None:
        if _LONG_NUMBER.search(document):
            writer.add_document(self._document(number, document))
            return
        rest = document[1:] if document == "{}" else f",{document[1:]}"
        try:
            writer.add_json(f'{{"{NUMBER}":{number}{rest}')
        except ValueError:
            writer.add_document(self._document(number, document))

    def _document(self, number: int, document: str) -> Any:
        """Value by value. A number that JSON has only as text, such as nan, is nothing to search for."""
        import tantivy

        kinds = dict(self.kinds)
        found: dict[str, Any] = {NUMBER: number}
        for name, value in json.loads(document).items():
            values = value if isinstance(value, list) else [value]
            read = [_read(each, kinds[name]) for each in values]
            found[name] = [each for each in read if each is not None]
        return tantivy.Document.from_dict(found, self.schema)


def _read(value: Any, kind: str) -> Any:
    if kind in ("float", "integer", "unsigned") and isinstance(value, str):
        return None
    if kind == "float" and value is not None:
        return float(value)
    if kind == "date" and value is not None:
        return dt.datetime.fromisoformat(value)
    return value


@lru_cache(maxsize=16)
def _schema(fields: Fields) -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    for name, kind in fields.kinds:
        word, _, tokenizer = kind.partition(" ")
        if word == "text":
            builder.add_text_field(name, tokenizer_name=tokenizer)
        elif word == "json":
            # Fast, as tantivy has no ranges over other fields of this kind.
            builder.add_json_field(name, tokenizer_name=tokenizer, fast=True)
        else:
            getattr(builder, f"add_{word}_field")(name, indexed=True, fast=True)
    builder.add_unsigned_field(NUMBER, fast=True)
    return builder.build()


@lru_cache(maxsize=PARSED_MOST)
def _parse(fields: Fields, text: str) -> Parsed:
    try:
        query = _empty_index(fields).parse_query(text, fields.words)
    except ValueError as error:
        raise BadQuery(f"cannot search for {text!r}: {error}") from error
    return Parsed(query, needs(repr(query)))


def composed(text: str) -> str:
    """In the one of Unicode's forms (NFC) that stored queries and documents are compared in."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


@lru_cache(maxsize=16)
def _probe(fields: Fields) -> Any:
    """An index of one document without anything in it, to run a query once."""
    return fields.index(["{}"])


@lru_cache(maxsize=16)
def _empty_index(fields: Fields) -> Any:
    import tantivy

    return tantivy.Index(fields.schema)


def fields_of(row: StructType, names: Sequence[str] | None, tokenizer: str) -> Fields:
    """The fields that columns become; unless they are named, all that can be searched and are no marks."""
    missing = [name for name in names or () if name not in row.names]
    if missing:
        raise BadQuery(
            f"the documents have no column {missing[0]}",
            hint=f"their columns are {', '.join(row.names)}",
        )
    if NUMBER in (names or ()):
        raise BadQuery(f"the column {NUMBER} cannot be searched in", hint="rename it")
    kinds = {
        each.name: _kind(each, tokenizer)
        for each in row.fields
        if (each.name in names if names is not None else not each.name.startswith("_"))
    }
    bad = [name for name in names or () if kinds[name] == STORED]
    if bad:
        raise BadQuery(
            f"the column {bad[0]} has nothing to search in", hint="leave it out of fields="
        )
    return Fields(tuple((name, kind) for name, kind in kinds.items() if kind != STORED))


def _kind(column: StructField, tokenizer: str) -> str:
    from pyspark.errors import PySparkException
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import ArrayType, StructField, StructType

    from headwater.views.targets.contract import Kind, Shape
    from headwater.views.targets.search.documents import fields

    kind = column.dataType
    while isinstance(kind, ArrayType) and isinstance(kind.elementType, ArrayType):
        kind = kind.elementType  # of lists of lists, all that is in them
    try:
        arrow = to_arrow_schema(StructType([StructField(column.name, kind)]), timezone="UTC")
    except PySparkException:  # such as intervals of months: nothing outside of Spark has them
        return STORED
    return fields(Shape("documents", arrow, (), Kind.APPEND, 1, {"tokenizer": tokenizer}))[
        column.name
    ]
