"""Views as full-text indexes in a folder: `search:PATH`, one tantivy index for each version.

Made by the registry; called by the runner and by every command that opens a view, and by users for `target`.
A batch is one commit of tantivy, and how far the view is stands in a document of that commit. tantivy lets
one writer in at a time, by a lock on the folder that ends with its process: the target takes it for each
commit, looks at the epoch, writes, and lets go.

    option tokenizer   how text is cut into words: default, en_stem (English word stems), whitespace, raw
    PATH/current       the index that readers open, with `SearchIndex` or any tool for tantivy
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwater.views.targets.libraries import missing

try:
    import pyarrow as pa
    import tantivy
except ModuleNotFoundError as error:
    raise missing(error, "search", "search") from error

from headwater import atomic_file
from headwater.views.targets.contract import (
    DELETED,
    Applied,
    Fenced,
    Kind,
    Part,
    Shape,
    Unavailable,
)
from headwater.views.targets.schema_fit import must_fit, types_of
from headwater.views.targets.search import documents
from headwater.views.targets.search.index import BOOK, KEY, ROW, Mark, SearchIndex
from headwater.views.targets.search.words import open_index
from headwater.views.targets.staged_files import Admission, FolderTarget

PATIENCE_S = 5.0
"""How long a call waits for another writer to let go."""
HEAP_BYTES = 64_000_000
MANY_ROWS = 20_000
"""From here on, a second thread pays; each thread writes a segment of its own."""
BATCH_ROWS = 10_000


class SearchTarget(FolderTarget):
    """A view as an index of tantivy."""

    kinds = frozenset({Kind.UPSERT, Kind.APPEND})
    scheme = "search"

    # ---- the driver, when a query starts ----------------------------------------------------------

    def create(self) -> None:
        fields = documents.fields(self.shape)
        self._folders.own()
        if not self._exists():
            self._folders.mine.mkdir(exist_ok=True)
            tantivy.Index(documents.schema(fields), path=str(self._folders.mine))
        known, types = SearchIndex(self._folders.mine).mark, types_of(self.shape.schema)
        where = f"the index {self._folders.mine}"
        must_fit(self.shape, where, known.types or types, types)
        must_fit(self.shape, where, known.fields or fields, fields)
        if known.fields is None or known.types is None:
            with self._writing() as (writer, mark):
                _note(writer, mark.described(fields, types))
        self._folders.show_first()

    def can_widen(self) -> bool:
        return True

    def widen(self) -> None:
        """tantivy's fields are those of an index's first day: the rows move to an index that has more."""
        mine, wider = self._folders.mine, self._folders.path / f".{self._folders.mine.name}-wider"
        if not mine.exists() and wider.exists():  # it was whole before the other went
            atomic_file.rename(wider, mine)
        if not self._exists():
            return
        known, types = SearchIndex(mine).mark.types, types_of(self.shape.schema)
        if known is None or not known.items() < types.items():
            return
        writer = self._writer(1)  # for its lock; with nothing to commit it writes nothing
        try:
            shutil.rmtree(wider, ignore_errors=True)
            wider.mkdir()
            copied(SearchIndex(mine), wider, self.shape)
            narrow = self._folders.path / f".{mine.name}-narrow"
            shutil.rmtree(narrow, ignore_errors=True)
            atomic_file.rename(mine, narrow)
            atomic_file.rename(wider, mine)
        finally:
            writer.wait_merging_threads()
        shutil.rmtree(narrow, ignore_errors=True)

    def claim(self) -> int:
        with self._writing() as (writer, mark):
            _note(writer, mark.claimed())
        return mark.claimed().epoch

    def applied(self) -> Applied | None:
        return SearchIndex(self._folders.mine).mark.applied if self._exists() else None

    # ---- tasks ------------------------------------------------------------------------------------

    def refused(self, rows: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        yield from documents.refused(rows, self.shape)

    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Part:
        admission = Admission(self.shape, part, self.refused)
        ready = documents.staged(self.shape, admission.admitted(rows))
        place = self._staged.write(batch, part, ready, documents.STAGED)
        return Part(part, place, admission.taken, tuple(admission.refused))

    # ---- the driver, at the end of a batch --------------------------------------------------------

    def commit(self, applied: Applied, parts: Sequence[Part]) -> None:
        many = sum(part.rows for part in parts) >= MANY_ROWS
        with self._writing(min(os.cpu_count() or 1, 4) if many else 1) as (writer, mark):
            if applied.epoch < mark.epoch:
                raise Fenced(f"another writer has taken over {self._folders.mine}")
            if mark.applied is None or applied.batch > mark.applied.batch:
                self._apply(writer, parts)
                _note(writer, mark.at(applied))
        self._staged.clear(applied.batch)

    def correct(self, applied: Applied, parts: Sequence[Part]) -> bool:
        """Change rows without moving the position, if the version is still where it was."""
        with self._writing() as (writer, mark):
            stands = mark.applied == applied
            if stands:
                self._apply(writer, parts)
                _note(writer, mark)
        self._staged.remove(parts)
        return stands

    def _apply(self, writer: Any, parts: Sequence[Part]) -> None:
        keyed = self.shape.kind is Kind.UPSERT
        for rows in self._staged.read(parts):
            keys, found = (rows.column(name).to_pylist() for name in documents.STAGED.names)
            for key, document in zip(keys, found, strict=True):
                if keyed:
                    writer.delete_documents_by_term(KEY, key)
                if document is not None:
                    writer.add_json(document)

    # ---- readers ----------------------------------------------------------------------------------

    def search(self, text: str, limit: int = 10, offset: int = 0) -> list[dict[str, Any]]:
        """The rows that fit best in the version that readers see, each with its `_score`."""
        return SearchIndex.current(self._folders.path).search(text, limit, offset)

    @contextmanager
    def reading(
        self, keys: pa.Table | None = None
    ) -> Iterator[tuple[Applied | None, Iterator[pa.RecordBatch]]]:
        self._require()
        index = SearchIndex(self._folders.mine)
        found = index.rows() if keys is None else index.rows(documents.keys(keys, self.shape))
        yield index.mark.applied, documents.batches(found, self.shape.schema, BATCH_ROWS)

    # ---- versions ---------------------------------------------------------------------------------

    def versions(self) -> dict[int, Applied | None]:
        folders = {n: self._folders.path / f"v{n}" for n in self._folders.versions()}
        return {
            version: SearchIndex(folder).mark.applied
            for version, folder in folders.items()
            if tantivy.Index.exists(str(folder))
        }

    # ---- the index --------------------------------------------------------------------------------

    def _exists(self) -> bool:
        return self._folders.mine.is_dir() and tantivy.Index.exists(str(self._folders.mine))

    def _require(self) -> None:
        if not self._exists():
            raise self._folders.absent()

    @contextmanager
    def _writing(self, threads: int = 1) -> Iterator[tuple[Any, Mark]]:
        """The only writer, and what the index says of itself; what was added is committed at the end."""
        self._require()
        writer = self._writer(threads)
        try:
            yield writer, SearchIndex(self._folders.mine).mark
            writer.commit()
        except BaseException:
            writer.rollback()
            raise
        finally:
            writer.wait_merging_threads()  # also lets go of the lock

    def _writer(self, threads: int) -> Any:
        index = open_index(self._folders.mine)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return index.writer(HEAP_BYTES * threads, threads)
            except ValueError as error:  # tantivy has no class of its own for a lock that is taken
                if "LockBusy" not in str(error):
                    raise
                if time.monotonic() > deadline:
                    raise Unavailable(f"{self._folders.mine} has another writer") from error
            time.sleep(0.02)  # between two tries: tantivy does not wait for its lock


def copied(index: SearchIndex, folder: Path, shape: Shape) -> None:
    """The rows of an index as an index of the columns of `shape`, which has them and more."""
    fields = documents.fields(shape)
    made = tantivy.Index(documents.schema(fields), path=str(folder))
    writer = made.writer(HEAP_BYTES, 1)
    keyed = shape.kind is Kind.UPSERT
    for rows in documents.batches(index.rows(), shape.schema, BATCH_ROWS):
        if keyed:
            rows = rows.append_column(DELETED, pa.array([False] * rows.num_rows, pa.bool_()))
        for each in documents.staged(shape, [rows]):
            for document in each.column("document").to_pylist():
                writer.add_json(document)
    _note(writer, index.mark.described(fields, types_of(shape.schema)))
    writer.commit()
    writer.wait_merging_threads()


def _note(writer: Any, mark: Mark) -> None:
    """Let the index say this of itself from the next commit on."""
    document = tantivy.Document()
    document.add_text(BOOK, BOOK)
    document.add_bytes(ROW, mark.to_json().encode())
    writer.delete_documents_by_term(BOOK, BOOK)
    writer.add_document(document)
