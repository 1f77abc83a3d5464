"""Rows of views in full-text indexes: a folder of tantivy, or an OpenSearch server. These can be searched.

A document keeps its row whole, as JSON. A server has no snapshots over several requests: there, the position
was read before the rows, which may be newer by a moment.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headwater.client.errors import BadRequest
from headwater.client.position import Position
from headwater.pipelines.view_rows.contract import Row, Rows
from headwater.pipelines.view_rows.values import key_of, order_of, parts_of

if TYPE_CHECKING:
    from headwater.views.targets.opensearch.http import Server
    from headwater.views.targets.search.index import SearchIndex

PAGE_ROWS = 1000
_OWN = "headwater_batch"


class IndexRows(Rows):
    """`search:FOLDER`. Pages are sorted here: a page of a very large index costs a pass over it."""

    def _index(self) -> SearchIndex:
        from headwater.views.targets.search.index import SearchIndex
        from headwater.views.targets.version_folders import CURRENT

        path = Path(self.address.partition(":")[2])
        path = path / self.view.options["table"] if "table" in self.view.options else path
        if not (path / CURRENT).exists():
            raise self.not_yet()
        return SearchIndex.current(path.absolute())

    def get(self, key: str) -> tuple[Position | None, Row | None]:
        index = self._index()
        found = next(iter(index.rows([key])), None)
        return _position(index), None if found is None else Row(key, found)

    def page(self, after: str | None, limit: int) -> tuple[Position | None, list[Row]]:
        index = self._index()
        return _position(index), smallest(self._all(index), after, limit, self)

    @contextmanager
    def all(self) -> Iterator[tuple[Position | None, Iterator[Row]]]:
        index = self._index()
        yield _position(index), self._all(index)

    def search(
        self, words: str, limit: int, offset: int
    ) -> tuple[Position | None, list[dict[str, Any]]]:
        from headwater.views.targets.search.index import BadSearch

        index = self._index()
        try:
            return _position(index), index.search(words, limit, offset)
        except BadSearch as error:
            raise BadRequest(str(error), hint=error.hint) from None

    def _all(self, index: SearchIndex) -> Iterator[Row]:
        return (Row(key_of(fields, self.view.key), fields) for fields in index.rows())


def _position(index: SearchIndex) -> Position | None:
    return None if index.mark.applied is None else index.mark.applied.position


class ServerRows(Rows):
    """`opensearch+http://…` and its like; readers see the index by its alias."""

    @contextmanager
    def _server(self) -> Iterator[tuple[Server, str, Position | None]]:
        """Connected; the index that readers see; how far it is."""
        from headwater.pipelines.handles import handle
        from headwater.views.targets.opensearch.http import Server

        position = handle(self.view).position()
        with Server.connected(self.address) as server:
            status, shown = server.ask("GET", f"/_alias/{quote(self.table)}", also=[404])
            if status == 404:
                raise self.not_yet()
            yield server, quote(next(iter(shown))), position

    def get(self, key: str) -> tuple[Position | None, Row | None]:
        id = key if key.strip("_") else f"{key}_"  # as opensearch_documents.ids writes it
        with self._server() as (server, index, position):
            status, found = server.ask("GET", f"/{index}/_doc/{quote(id, safe='')}", also=[404])
        if status == 404:
            return position, None
        return position, Row(key, _fields(found["_source"]))

    def page(self, after: str | None, limit: int) -> tuple[Position | None, list[Row]]:
        with self.all() as (position, rows):
            return position, smallest(rows, after, limit, self)

    @contextmanager
    def all(self) -> Iterator[tuple[Position | None, Iterator[Row]]]:
        with self._server() as (server, index, position):
            yield position, self._scrolled(server, index)

    def search(
        self, words: str, limit: int, offset: int
    ) -> tuple[Position | None, list[dict[str, Any]]]:
        asked = {"query": {"simple_query_string": {"query": words}}, "size": limit, "from": offset}
        with self._server() as (server, index, position):
            _, found = server.ask("POST", f"/{index}/_search", asked)
        hits = found["hits"]["hits"]
        return position, [{**_fields(hit["_source"]), "_score": hit["_score"]} for hit in hits]

    def _scrolled(self, server: Server, index: str) -> Iterator[Row]:
        server.ask("POST", f"/{index}/_refresh")
        asked = {"query": {"match_all": {}}, "size": PAGE_ROWS}
        _, page = server.ask("POST", f"/{index}/_search?scroll=1m", asked)
        while hits := page["hits"]["hits"]:
            for hit in hits:
                fields = _fields(hit["_source"])
                yield Row(key_of(fields, self.view.key), fields)
            more = {"scroll": "1m", "scroll_id": page["_scroll_id"]}
            _, page = server.ask("POST", "/_search/scroll", more)
        server.ask("DELETE", "/_search/scroll", {"scroll_id": page["_scroll_id"]}, also=[404])


def _fields(source: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in source.items() if name != _OWN}


def smallest(rows: Iterator[Row], after: str | None, limit: int, of: Rows) -> list[Row]:
    """A page of rows that come in no order, in memory no more than the page."""
    key = of.view.key
    rest = rows
    if after is not None:
        if parts_of(after, len(key)) is None:
            raise of.no_key(after)
        border = _border(after, key, of)
        rest = (row for row in rows if _comparable(row, key, border))
    return heapq.nsmallest(limit, rest, key=lambda row: order_of(row.fields, key))


def _border(after: str, key: tuple[str, ...], of: Rows) -> list[str]:
    parts = parts_of(after, len(key))
    assert parts is not None
    return parts


def _comparable(row: Row, key: tuple[str, ...], border: list[str]) -> bool:
    """Whether a row is behind the border, whose texts are read as the row's values are."""
    fields = {name: _as(row.fields.get(name), text) for name, text in zip(key, border, strict=True)}
    return order_of(row.fields, key) > order_of(fields, key)


def _as(example: Any, text: str) -> Any:
    if isinstance(example, int | float) and not isinstance(example, bool):
        try:
            return float(text) if isinstance(example, float) else int(text)
        except ValueError:
            return text
    return text
