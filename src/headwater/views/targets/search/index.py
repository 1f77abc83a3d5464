"""An index as readers open it: searching, and what it says of itself. For users, the target and HTTP.

Every row is a document: its columns are fields to search in, and `_row` keeps it whole, as JSON. One more
document, the only one with the field `_headwater`, says how far the view is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tantivy

from headwater.client.position import Position
from headwater.errors import HeadwaterError
from headwater.views.targets.contract import Applied
from headwater.views.targets.search.words import open_index, query
from headwater.views.targets.version_folders import CURRENT

KEY, ROW, BOOK = "_key", "_row", "_headwater"
SEARCHED = ("text", "json")
"""Kinds of fields in which words without a field's name are looked for."""


class BadSearch(HeadwaterError):
    """A text that is no query, or nothing to ask."""


@dataclass(frozen=True)
class Mark:
    """What an index says of itself."""

    epoch: int = 0
    applied: Applied | None = None
    fields: Mapping[str, str] | None = None
    """Name to kind, see `documents`."""
    types: Mapping[str, str] | None = None
    """Name to the view's type; none in an index that is older than this note."""

    def claimed(self) -> Mark:
        known = self.applied
        epoch = self.epoch + 1
        return replace(self, epoch=epoch, applied=known and replace(known, epoch=epoch))

    def at(self, applied: Applied) -> Mark:
        return replace(self, epoch=applied.epoch, applied=applied)

    def described(self, fields: Mapping[str, str], types: Mapping[str, str]) -> Mark:
        return replace(self, fields=fields, types=types)

    def to_json(self) -> str:
        known = self.applied
        return json.dumps(
            {
                "epoch": self.epoch,
                "batch": known and known.batch,
                "position": known and json.loads(known.position.to_json()),
                "fields": self.fields,
                "types": self.types,
            }
        )

    @classmethod
    def from_json(cls, text: bytes) -> Mark:
        said = json.loads(text)
        applied = None
        if said["batch"] is not None:
            position = Position.from_json(json.dumps(said["position"]))
            applied = Applied(said["batch"], said["epoch"], position)
        return cls(said["epoch"], applied, said["fields"], said.get("types"))


class SearchIndex:
    """An index at one moment: it stays as it was when it was opened."""

    def __init__(self, folder: Path) -> None:
        self._index = open_index(folder)
        self._searcher = self._index.searcher()
        self.mark = self._mark()

    @classmethod
    def current(cls, path: Path) -> SearchIndex:
        """The version that readers see, of a view in this folder."""
        folder = path / CURRENT
        if not folder.exists():
            raise BadSearch(f"{path} has no index yet", hint="run the view: headwater run …")
        return cls(folder.resolve())

    def search(self, text: str, limit: int = 10, offset: int = 0) -> list[dict[str, Any]]:
        """The rows that fit best, each with its `_score`; columns are asked as in `name:ada total:>5`."""
        fields = self.mark.fields or {}
        words = [name for name, kind in fields.items() if kind.split()[0] in SEARCHED]
        tokenizer = next((fields[name].split()[1] for name in words), "default")
        try:
            asked = self._index.parse_query(query(text, tokenizer), words)
        except ValueError as error:
            raise BadSearch(
                f"cannot search for {text!r}: {error}",
                hint='words, "a phrase", column:word, +must, -must_not, column:[1 TO 5]',
            ) from error
        if limit < 1:
            return []
        hits = self._searcher.search(self._rows_of(asked), limit, count=False, offset=offset).hits
        return [{**self._row(address), "_score": score} for score, address in hits]

    def rows(self, keys: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """All rows as JSON objects, or those of these keys."""
        asked = tantivy.Query.all_query()
        if keys is not None:
            asked = tantivy.Query.term_set_query(self._index.schema, KEY, list(keys))
        limit = max(1, self._searcher.num_docs)
        for _, address in self._searcher.search(self._rows_of(asked), limit, count=False).hits:
            yield self._row(address)

    def _row(self, address: Any) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._kept(address))
        return found

    def _kept(self, address: Any) -> bytes:
        kept: Any = self._searcher.doc(address).get_first(ROW)
        return bytes(kept)

    def _rows_of(self, query: Any) -> Any:
        """Without the document that is no row."""
        book = tantivy.Query.term_query(self._index.schema, BOOK, BOOK)
        return tantivy.Query.boolean_query(
            [(tantivy.Occur.Must, query), (tantivy.Occur.MustNot, book)]
        )

    def _mark(self) -> Mark:
        book = tantivy.Query.term_query(self._index.schema, BOOK, BOOK)
        hits = self._searcher.search(book, 1, count=False).hits
        if not hits:
            return Mark()
        return Mark.from_json(self._kept(hits[0][1]))
