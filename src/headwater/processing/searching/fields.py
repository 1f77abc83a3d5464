"""The fields of documents, and the queries over them, as tantivy has them. In workers and on the driver.

Columns become fields as in the search view (docs/targets.md), so a query means the same in both.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from headwater.errors import HeadwaterError
from headwater.processing.searching.needs import Needs, needs

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

NUMBER = "_number"
"""The field of a document's number within its batch."""
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
    """Name and kind of each field, see `headwater.views.search_documents`."""

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
        return _parse(self, text)

    def index(self, documents: Sequence[str]) -> Any:
        """A searcher over documents, each a JSON object, that are known by their place in the list."""
        import tantivy

        index = tantivy.Index(self.schema)
        writer = index.writer(WRITER_BYTES, 1)
        for number, document in enumerate(documents):
            rest = document[1:] if document == "{}" else f",{document[1:]}"
            try:
                writer.add_json(f'{{"{NUMBER}":{number}{rest}')
            except ValueError:
                writer.add_json(f'{{"{NUMBER}":{number}{self._mended(document)}')
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        return index.searcher()

    def _mended(self, document: str) -> str:
        """Without numbers that JSON has only as text, such as nan: there is nothing to search for."""
        numbers = {name for name, kind in self.kinds if kind in ("float", "integer", "unsigned")}
        kept = {
            name: value
            for name, value in json.loads(document).items()
            if not (name in numbers and isinstance(value, str))
        }
        return json.dumps(kept).replace("{", ",", 1) if kept else "}"


@lru_cache(maxsize=16)
def _schema(fields: Fields) -> Any:
    import tantivy

    builder = tantivy.SchemaBuilder()
    for name, kind in fields.kinds:
        word, _, tokenizer = kind.partition(" ")
        if word == "text":
            builder.add_text_field(name, tokenizer_name=tokenizer)
        elif word == "json":
            builder.add_json_field(name, tokenizer_name=tokenizer)
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


@lru_cache(maxsize=16)
def _empty_index(fields: Fields) -> Any:
    import tantivy

    return tantivy.Index(fields.schema)


def fields_of(row: StructType, names: Sequence[str] | None, tokenizer: str) -> Fields:
    """The fields that columns become; all that can be searched unless they are named."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    from headwater.views.search_documents import fields
    from headwater.views.target import Kind, Shape

    chosen = StructType([each for each in row.fields if names is None or each.name in names])
    missing = [name for name in names or () if name not in row.names]
    if missing:
        raise BadQuery(
            f"the documents have no column {missing[0]}",
            hint=f"their columns are {', '.join(row.names)}",
        )
    arrow = to_arrow_schema(chosen, timezone="UTC")
    kinds = fields(Shape("documents", arrow, (), Kind.APPEND, 1, {"tokenizer": tokenizer}))
    bad = [name for name in names or () if kinds[name] == "stored"]
    if bad:
        raise BadQuery(
            f"the column {bad[0]} has nothing to search in", hint="leave it out of fields="
        )
    return Fields(tuple((name, kind) for name, kind in kinds.items() if kind != "stored"))
