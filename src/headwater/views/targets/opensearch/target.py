"""Views in OpenSearch or Elasticsearch: `opensearch+http://HOST:9200`, an index for each version.

Made by the registry; called by the runner and by every command that opens a view. There are no transactions
over several documents, so this target does what comes nearest: each document carries the batch as its
external version, so that a batch may be written again, and a replaced writer's older rows lose; the position
is written when all documents are, and only as it was read. Rows are exact and never go back, but a reader may
see part of a batch while it is written. This has met a server that answers as documented, not a real one.

    NAME-v1            an index; the alias NAME is on the version that readers see
    headwater_views    how far each version is (`book`)
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headwater.views.targets.libraries import missing

try:
    import pyarrow as pa
except ModuleNotFoundError as error:
    raise missing(error, "opensearch", "spark") from error

from headwater.views.targets.contract import (
    Applied,
    Fenced,
    Kind,
    Misfit,
    Part,
    Refusal,
    RowsRefused,
    Shape,
    Target,
    Unavailable,
)
from headwater.views.targets.json_rows import from_objects
from headwater.views.targets.opensearch import documents
from headwater.views.targets.opensearch.book import Book, Entry, make_index, said_of, shape_text
from headwater.views.targets.opensearch.http import PASSING, SearchRequestRefused, Server
from headwater.views.targets.places import OPENSEARCH, must_be_free
from headwater.views.targets.schema_fit import misfit, must_fit, types_of
from headwater.views.targets.staged_files import Admission, StagedFiles

BULK_ROWS = 2000
_OF_THE_ROW = (400, 413)
"""What is wrong with one document, and not with the index or the server."""
PAGE_ROWS = 2000
PATIENCE_S = 60.0
"""How long a reader waits for a moment between two batches."""
SETTINGS = {"index": {"gc_deletes": "1h"}}
"""How long the server remembers the version of a deleted document, and so refuses an older one."""


class OpenSearchTarget(Target):
    """A view as an index of a search server."""

    kinds = frozenset({Kind.UPSERT, Kind.APPEND})

    def __init__(self, address: str, shape: Shape) -> None:
        super().__init__(address, shape)
        self._index = f"{documents.index_name(self.name)}-v{shape.version}"

    # ---- the driver, when a query starts ----------------------------------------------------------

    def create(self) -> None:
        mapping = documents.mapping(self.shape)
        shape, types = shape_text(mapping, self.shape.key), types_of(self.shape.schema)
        with self._connected() as (server, book):
            book.make()
            entry = book.read()
            if entry is None:
                must_be_free(self.name, "the server", book.others(), OPENSEARCH)
                body = {"settings": SETTINGS, "mappings": mapping}
                make_index(server, self._index, body)
                id = {"view": self.shape.view, "version": self.shape.version, "index": self._index}
                nothing = {"epoch": 0, "batch": None, "position": None, "writing": None}
                book.add({**id, **nothing, "shape": shape, "types": types})
                entry = self._entry(book)
            # An entry that is older than the note of types is compared by its mapping alone.
            must_fit(
                self.shape, f"the index {self._index}", entry.fields.get("types") or types, types
            )
            if entry.fields["shape"] != shape:
                raise misfit(
                    self.shape, f"the index {self._index}", "it has another mapping or key"
                )
            if not self._shown(server):
                self._show(server, [])

    def can_widen(self) -> bool:
        return True

    def widen(self) -> None:
        with self._connected() as (_, book):
            types = types_of(self.shape.schema)
            book.widen(self._index, documents.mapping(self.shape), types, self.shape.key)

    def claim(self) -> int:
        with self._connected() as (_, book):
            while True:
                entry = self._entry(book)
                changed = book.change(entry, epoch=entry.epoch + 1)
                if changed is not None:
                    return changed.epoch

    def applied(self) -> Applied | None:
        with self._connected() as (_, book):
            entry = book.read()
        return entry.applied if entry else None

    def judges_rows(self) -> bool:
        """What a mapping takes, only the server knows."""
        return True

    # ---- tasks ------------------------------------------------------------------------------------

    def refused(self, rows: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        yield from documents.refused(rows, self.shape)

    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Part:
        admission = Admission(self.shape, part, self.refused)
        ready = documents.staged(self.shape, batch, part, admission.admitted(rows))
        place = self._staged.write(batch, part, ready, documents.STAGED)
        return Part(part, place, admission.taken, tuple(admission.refused))

    # ---- the driver, at the end of a batch --------------------------------------------------------

    def commit(self, applied: Applied, parts: Sequence[Part]) -> None:
        with self._connected() as (server, book):
            entry = self._entry(book)
            if applied.epoch < entry.epoch:
                raise self._fenced()
            if entry.applied is None or applied.batch > entry.applied.batch:
                unfinished = entry.fields["writing"] == applied.batch
                held = book.change(entry, epoch=applied.epoch, writing=applied.batch)
                if held is None:
                    raise self._overtaken(book, applied)
                if unfinished and self.shape.kind is Kind.APPEND:
                    self._remove_batch(server, applied.batch)
                self._apply(server, applied.batch, parts)
                if book.change(held, **said_of(applied)) is None:
                    raise self._overtaken(book, applied)
        self._staged.clear(applied.batch)

    def correct(self, applied: Applied, parts: Sequence[Part]) -> bool:
        """Change rows without moving the position, if the version is still where it was."""
        with self._connected() as (server, book):
            entry = self._entry(book)
            held = None
            if entry.applied == applied and entry.fields["writing"] is None:
                held = book.change(entry, writing=applied.batch)
            if held is not None:
                self._apply(server, applied.batch, parts)
                book.change(held, writing=None)
        self._staged.remove(parts)
        return held is not None

    def _apply(self, server: Server, batch: int, parts: Sequence[Part]) -> None:
        refusals = [each for part in parts for each in self._send(server, batch, part)]
        server.ask("POST", f"/{self._index}/_refresh")
        if refusals:
            raise RowsRefused(refusals)

    def _send(self, server: Server, batch: int, part: Part) -> list[Refusal]:
        rows = self._staged.table([part])
        ids, found = (rows.column(name).to_pylist() for name in documents.STAGED.names)
        bad: dict[int, str] = {}
        for begin in range(0, len(ids), BULK_ROWS):
            pairs = zip(
                ids[begin : begin + BULK_ROWS], found[begin : begin + BULK_ROWS], strict=True
            )
            lines = [line for id, document in pairs for line in self._action(id, document, batch)]
            for number, item in enumerate(server.bulk(lines), begin):
                # 409: a newer version is there. 404: what is to be deleted never was.
                if "error" not in item or item["status"] == 409:
                    continue
                if item["status"] not in _OF_THE_ROW:
                    raise self._trouble(item["status"], str(item["error"]["reason"]))
                bad[number] = str(item["error"]["reason"])
        if bad:
            kept = [number not in bad for number in range(len(ids))]
            self._staged.rewrite(part, rows.filter(pa.array(kept, pa.bool_())))
        return [Refusal(found[n] or ids[n], reason, part.number) for n, reason in bad.items()]

    def _trouble(self, status: int, reason: str) -> Unavailable | Misfit:
        if status in PASSING:
            return Unavailable(f"the server does not take rows for {self._index} now: {reason}")
        return Misfit(
            f"the server does not take rows for {self._index}: {status} {reason}",
            hint="put back the index or the rights, or rebuild the view with "
            f"headwater rebuild {self.shape.view}",
        )

    def _action(self, id: str, document: str | None, batch: int) -> list[str]:
        what: dict[str, Any] = {"_index": self._index, "_id": id}
        if self.shape.kind is Kind.UPSERT:
            what |= {"version": batch + 1, "version_type": "external_gte"}
        if document is None:
            return [json.dumps({"delete": what})]
        return [json.dumps({"index": what}, ensure_ascii=False), document]

    def _remove_batch(self, server: Server, batch: int) -> None:
        """What an attempt that did not end has added already."""
        server.ask("POST", f"/{self._index}/_refresh")
        asked = {"query": {"term": {documents.BATCH: batch}}}
        server.ask("POST", f"/{self._index}/_delete_by_query?conflicts=proceed", asked)

    # ---- readers ----------------------------------------------------------------------------------

    def search(self, text: str, limit: int = 10, offset: int = 0) -> list[dict[str, Any]]:
        """The rows that fit best in the version that readers see, each with its `_score`."""
        asked = {"query": {"simple_query_string": {"query": text}}, "size": limit, "from": offset}
        with self._connected() as (server, _):
            _, said = server.ask("POST", f"/{quote(self.name)}/_search", asked)
        return [{**hit["_source"], "_score": hit["_score"]} for hit in said["hits"]["hits"]]

    @contextmanager
    def reading(
        self, keys: pa.Table | None = None
    ) -> Iterator[tuple[Applied | None, Iterator[pa.RecordBatch]]]:
        with self._connected() as (server, book):
            asked: dict[str, Any] = {"match_all": {}}
            if keys is not None:
                asked = {"ids": {"values": documents.ids(keys, self.shape.key)}}

            def begin() -> Any:
                server.ask("POST", f"/{self._index}/_refresh")
                path = f"/{self._index}/_search?scroll=5m"
                return server.ask("POST", path, {"query": asked, "size": PAGE_ROWS})[1]

            applied, page = self._between_batches(book, begin)
            yield applied, self._pages(server, page)
            server.ask("DELETE", "/_search/scroll", {"scroll_id": page["_scroll_id"]}, also=[404])

    def _between_batches(self, book: Book, look: Callable[[], Any]) -> tuple[Applied | None, Any]:
        """What is seen at a moment when no batch is being written."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            before = self._entry(book)
            if before.fields["writing"] is None:
                seen = look()
                if self._entry(book).seq_no == before.seq_no:
                    return before.applied, seen
            time.sleep(0.02)  # between two looks
        raise Unavailable(f"{self._index} is always being written")

    def _pages(self, server: Server, page: Any) -> Iterator[pa.RecordBatch]:
        while hits := page["hits"]["hits"]:
            yield from_objects([hit["_source"] for hit in hits], self.shape.schema)
            more = {"scroll": "5m", "scroll_id": page["_scroll_id"]}
            _, page = server.ask("POST", "/_search/scroll", more)

    # ---- versions ---------------------------------------------------------------------------------

    def versions(self) -> dict[int, Applied | None]:
        with self._connected() as (_, book):
            return book.versions()

    def current(self) -> int | None:
        with self._connected() as (server, _):
            shown = self._shown(server)
        numbers = [name.removeprefix(f"{self.name}-v") for name in shown]
        return next((int(number) for number in numbers if number.isdecimal()), None)

    def switch(self) -> None:
        with self._connected() as (server, book):
            self._entry(book)
            self._show(server, [name for name in self._shown(server) if name != self._index])

    def drop(self) -> None:
        with self._connected() as (server, book):
            if self._index in self._shown(server):
                raise Misfit(f"readers see version {self.shape.version} of {self.name}")
            server.ask("DELETE", f"/{self._index}", also=[404])
            book.remove()
        self._staged.drop()

    def _shown(self, server: Server) -> list[str]:
        """The indexes that have the alias: one, or none."""
        status, said = server.ask("GET", f"/_alias/{quote(self.name)}", also=[404])
        return [] if status == 404 else list(said)

    def _show(self, server: Server, instead_of: Sequence[str]) -> None:
        actions = [{"remove": {"index": each, "alias": self.name}} for each in instead_of]
        actions.append({"add": {"index": self._index, "alias": self.name}})
        try:
            server.ask("POST", "/_aliases", {"actions": actions})
        except SearchRequestRefused as error:
            raise Misfit(str(error), hint="name another one with the option table") from error

    # ---- the server -------------------------------------------------------------------------------

    @property
    def _staged(self) -> StagedFiles:
        whose = hashlib.sha256(f"{self.address} {self._index}".encode()).hexdigest()[:12]
        return StagedFiles(Path(tempfile.gettempdir()) / "headwater-staging" / whose, self.shape)

    @contextmanager
    def _connected(self) -> Iterator[tuple[Server, Book]]:
        with Server.connected(self.address) as server:
            yield server, Book(server, self.shape.view, self.shape.version)

    def _entry(self, book: Book) -> Entry:
        entry = book.read()
        if entry is None:
            raise Misfit(
                f"the server has no version {self.shape.version} of the view {self.shape.view!r}"
            )
        return entry

    def _overtaken(self, book: Book, applied: Applied) -> Fenced | Unavailable:
        """Why the entry was not as it was read: by another writer, or by a repair."""
        if self._entry(book).epoch > applied.epoch:
            return self._fenced()
        return Unavailable(f"{self._index} was changed by somebody else")

    def _fenced(self) -> Fenced:
        return Fenced(f"another writer has taken over {self._index}")
