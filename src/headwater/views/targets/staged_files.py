"""Parts of a batch as Arrow files in a folder, until the commit reads them: the staging of embedded stores.

Written by tasks, read and removed by the driver. The folder is beside the store, or where the option
`staging` says; on a cluster every machine must see it. A file belongs to one attempt of one task, so that
what a replaced driver still writes is never mixed with its successor's.

    FOLDER/VIEW-v1/12/3-9f86d081….arrow     batch 12, part 3

Files are not synced: what a power cut takes away is staged again, as its batch was not committed.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.targets.contract import (
    DELETED,
    VALID_FROM,
    VALIDITY,
    Kind,
    Misfit,
    Part,
    Refusal,
    Shape,
    Target,
    Unavailable,
)
from headwater.views.targets.json_rows import documents
from headwater.views.targets.version_folders import VersionFolders

MOMENT = pa.timestamp("us", "UTC")
Check = Callable[[pa.RecordBatch], Iterable[tuple[int, str]]]
"""Names the rows of a batch that the target cannot take: number and reason."""


def staged_schema(shape: Shape) -> pa.Schema:
    """Of what `stage` gets."""
    schema = pa.schema(list(shape.schema))
    if shape.kind is not Kind.APPEND:
        schema = schema.append(pa.field(DELETED, pa.bool_()))
    if shape.kind is Kind.HISTORY:
        schema = schema.append(pa.field(VALID_FROM, MOMENT))
    return schema


def visible_schema(shape: Shape) -> pa.Schema:
    """Of what readers see."""
    schema = pa.schema(list(shape.schema))
    if shape.kind is Kind.HISTORY:
        for name, kind in zip(VALIDITY, (MOMENT, MOMENT, pa.bool_()), strict=True):
            schema = schema.append(pa.field(name, kind))
    return schema


def fitted(rows: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with exactly these columns."""
    if rows.schema.equals(schema):
        return rows
    try:
        return pa.RecordBatch.from_arrays(
            [rows.column(field.name).cast(field.type) for field in schema], schema=schema
        )
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Misfit(f"rows are not the view's: {error}") from error


class Admission:
    """Goes through the rows of a part, keeps those that the target takes, and notes the others."""

    def __init__(self, shape: Shape, part: int, check: Check | None = None) -> None:
        self._schema = staged_schema(shape)
        self._shape = shape
        self._part = part
        self._check = check
        self.seen = 0
        self.refused: list[Refusal] = []

    @property
    def taken(self) -> int:
        return self.seen - len(self.refused)

    def admitted(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for given in rows:
            batch = fitted(given, self._schema)
            bad = refusals(self._shape, batch, self._check) if self._check else {}
            for number, reason in bad.items():
                shown = batch.slice(number, 1).select(self._shape.schema.names)
                row = documents(shown)[0]
                self.refused.append(Refusal(row, reason, self._part, self.seen + number))
            self.seen += batch.num_rows
            yield batch.filter(all_but(bad, batch.num_rows)) if bad else batch


def refusals(shape: Shape, rows: pa.RecordBatch, check: Check) -> dict[int, str]:
    """What a check says of rows. Of deleted ones it sees the key alone: the rest is as it was before, and a
    row that could not come must be able to go."""
    if DELETED not in rows.schema.names or not pc.any(rows.column(DELETED)).as_py():
        return dict(check(rows))
    gone = rows.column(DELETED)
    there, deleted = pc.invert(gone), rows.filter(gone)
    keys = [
        deleted.column(name) if name in (*shape.key, DELETED, VALID_FROM)
        else pa.nulls(deleted.num_rows, rows.schema.field(name).type)
        for name in rows.schema.names
    ]  # fmt: skip
    found: dict[int, str] = {}
    parts = (
        (there, rows.filter(there)),
        (gone, deleted.from_arrays(keys, names=rows.schema.names)),
    )
    for chosen, some in parts:
        places = pc.indices_nonzero(chosen).to_pylist()
        found |= {places[number]: reason for number, reason in check(some)}
    return found


def all_but(numbers: Iterable[int], count: int) -> pa.Array:
    kept = [True] * count
    for number in numbers:
        kept[number] = False
    return pa.array(kept, pa.bool_())


class StagedFiles:
    """The staged parts of one version of a view."""

    def __init__(self, folder: Path, shape: Shape) -> None:
        chosen = Path(shape.options.get("staging") or folder)
        self._folder = chosen.absolute() / f"{shape.view}-v{shape.version}"

    @property
    def folder(self) -> Path:
        return self._folder

    def write(
        self, batch: int, part: int, rows: Iterable[pa.RecordBatch], schema: pa.Schema
    ) -> str:
        """Put rows of this schema aside; returns their place."""
        folder = self._folder / str(batch)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{part}-{uuid.uuid4().hex}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for each in rows:
                writer.write_batch(each)
        return str(path)

    def rewrite(self, part: Part, rows: pa.Table) -> None:
        """Put other rows in a part's place, all at once."""
        fresh = Path(f"{part.place}.fresh")
        with pa.OSFile(str(fresh), "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
            writer.write_table(rows)
        fresh.rename(part.place)

    def read(self, parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
        """The rows of these parts, from memory maps."""
        for part in parts:
            yield from self.table([part]).to_batches()

    def table(self, parts: Sequence[Part]) -> pa.Table:
        """The rows of these parts; at least one."""
        tables = []
        for part in parts:
            try:
                with pa.memory_map(part.place) as source, pa.ipc.open_file(source) as file:
                    tables.append(file.read_all())
            except FileNotFoundError as error:
                raise Unavailable(
                    f"the staged part {part.place} is not there",
                    hint="on a cluster, the option staging must name a folder that all machines see",
                ) from error
        return pa.concat_tables(tables)

    def clear(self, through: int) -> None:
        """Forget everything up to a batch. Corrections are staged as batch -1, and stay."""
        if not self._folder.is_dir():
            return
        for folder in self._folder.iterdir():
            if folder.name.isdecimal() and int(folder.name) <= through:
                shutil.rmtree(folder, ignore_errors=True)

    def remove(self, parts: Sequence[Part]) -> None:
        for part in parts:
            Path(part.place).unlink(missing_ok=True)

    def drop(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class FolderTarget(Target):
    """A view in a folder that driver and executors see, with a folder in it for each version."""

    scheme: ClassVar[str]

    def __init__(self, address: str, shape: Shape) -> None:
        super().__init__(address, shape)
        path = Path(self.rest)
        table = shape.options.get("table")
        self._folders = VersionFolders(path / table if table else path, shape, self.scheme)

    def current(self) -> int | None:
        return self._folders.current()

    def switch(self) -> None:
        self._require()
        self._folders.show()

    def drop(self) -> None:
        self._folders.drop()
        self._staged.drop()

    def _require(self) -> None:
        """Raises Misfit where this version is not there."""
        raise NotImplementedError

    @property
    def _staged(self) -> StagedFiles:
        return StagedFiles(self._folders.staging, self.shape)
