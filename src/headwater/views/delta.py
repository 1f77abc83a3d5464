"""Views in Delta Lake tables: `delta:PATH`, one table for each version, `PATH/current` for readers.

Made by the registry; called by the runner and by every command that opens a view. A batch is one commit of
Delta, and the commit says how far the view is: application transactions hold the writer's epoch and the
batch, its metadata holds the position. Delta refuses a commit when another one has touched the same
application transactions since the table was read, and that is what keeps a replaced writer out.

    option partition_by    columns that make folders, as in `day,country`
    option compact_every   after so many batches small files are joined, and old ones removed (100)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwater.views.libraries import missing

try:
    import deltalake
    import pyarrow as pa
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
except ModuleNotFoundError as error:
    raise missing(error, "delta", "warehouse") from error

from headwater.views.delta_log import Log, Mark
from headwater.views.delta_merge import merge_history, merge_rows, wanted
from headwater.views.folders import VersionFolders
from headwater.views.staged_files import Admission, StagedFiles, staged_schema, visible_schema
from headwater.views.target import (
    Applied,
    Fenced,
    Kind,
    Misfit,
    Part,
    Shape,
    Target,
    Unavailable,
)

COMPACT_EVERY = 100
KEEP_FILES_HOURS = 168
"""Files that no commit needs any more stay a week for readers of older versions, as Delta advises."""


class DeltaTarget(Target):
    """A view as a Delta table in a folder that driver and executors see."""

    kinds = frozenset(Kind)

    def __init__(self, address: str, shape: Shape) -> None:
        super().__init__(address, shape)
        if "://" in self.rest:
            raise Misfit(
                f"{address} is not a folder", hint="write delta:PATH, as in delta:data/orders"
            )
        path = Path(self.rest)
        self._folders = VersionFolders(
            path / shape.options["table"] if "table" in shape.options else path, shape
        )

    # ---- the driver, when a query starts ----------------------------------------------------------

    def create(self) -> None:
        wanted_schema = self._delta_schema()
        self._folders.own()
        try:
            table = self._table()
        except Misfit:
            by = [each.strip() for each in self.shape.options.get("partition_by", "").split(",")]
            table = deltalake.DeltaTable.create(
                self._folders.mine, wanted_schema, partition_by=[each for each in by if each]
            )
            Log(table).sync()
        if table.schema() != wanted_schema:
            raise Misfit(
                f"the Delta table {self._folders.mine} has other columns than the view",
                hint=f"headwater rebuild {self.shape.view} makes a version with the new ones",
            )
        self._folders.show_first()

    def claim(self) -> int:
        def next_epoch(log: Log) -> int:
            epoch = log.mark.epoch + 1
            log.commit_nothing(log.mark.claimed(epoch))
            return epoch

        return int(self._committing(next_epoch))

    def applied(self) -> Applied | None:
        return Log(self._table()).mark.applied if self._folders.mine.is_dir() else None

    # ---- tasks ------------------------------------------------------------------------------------

    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Part:
        schema = staged_schema(self.shape)
        admission = Admission(schema, part)
        place = self._staged.write(batch, part, admission.admitted(rows), schema)
        return Part(part, place, admission.taken)

    # ---- the driver, at the end of a batch --------------------------------------------------------

    def commit(self, applied: Applied, parts: Sequence[Part]) -> None:
        def apply(log: Log) -> None:
            if applied.epoch < log.mark.epoch:
                raise Fenced(f"another writer has taken over {self._folders.mine}")
            if log.mark.applied is None or applied.batch > log.mark.applied.batch:
                self._apply(log, Mark.of(applied), parts)
                self._compact(log.table, applied)

        self._committing(apply)
        self._staged.clear(applied.batch)

    def correct(self, applied: Applied, parts: Sequence[Part]) -> bool:
        """Change rows without moving the position, if the version is still where it was."""

        def apply(log: Log) -> bool:
            if log.mark.applied != applied:
                return False
            self._apply(log, log.mark, parts)
            return True

        stood = bool(self._committing(apply))
        self._staged.remove(parts)
        return stood

    def _apply(self, log: Log, mark: Mark, parts: Sequence[Part]) -> None:
        if not parts:
            log.commit_nothing(mark)
            return
        properties, rows = mark.properties(), self._staged.table(parts)
        if self.shape.kind is Kind.APPEND:
            deltalake.write_deltalake(log.table, rows, mode="append", commit_properties=properties)
        elif self.shape.kind is Kind.UPSERT:
            merge_rows(log.table, rows, self.shape, properties)
        else:
            merge_history(log.table, rows, self.shape, properties)
        log.sync()

    def _compact(self, table: Any, applied: Applied) -> None:
        every = int(self.shape.options.get("compact_every", COMPACT_EVERY))
        if every > 0 and applied.batch % every == every - 1:
            table.update_incremental()
            table.optimize.compact(commit_properties=Mark.of(applied).properties())
            table.vacuum(KEEP_FILES_HOURS, dry_run=False)

    def _committing(self, change: Any) -> Any:
        """Make a change to the table as it is now; if another one came between, look again."""
        try:
            return change(Log(self._table()))
        except CommitFailedError:
            try:
                return change(Log(self._table()))
            except CommitFailedError as error:
                raise Unavailable(f"{self._folders.mine}: {error}") from error
        except (OSError, DeltaError) as error:
            raise Unavailable(f"{self._folders.mine}: {error}") from error

    # ---- readers ----------------------------------------------------------------------------------

    @contextmanager
    def reading(
        self, keys: pa.Table | None = None
    ) -> Iterator[tuple[Applied | None, Iterator[pa.RecordBatch]]]:
        table = self._table()
        rows = table.to_pyarrow_dataset()
        names = visible_schema(self.shape).names
        applied = Log(table).mark.applied
        if keys is None:
            yield applied, iter(rows.scanner(columns=names).to_reader())
        else:
            yield applied, iter(wanted(rows, names, keys.select(list(self.shape.key))))

    # ---- versions ---------------------------------------------------------------------------------

    def versions(self) -> dict[int, Applied | None]:
        found: dict[int, Applied | None] = {}
        for version in self._folders.versions():
            try:
                table = deltalake.DeltaTable(self._folders.path / f"v{version}")
            except TableNotFoundError:
                continue
            found[version] = Log(table).mark.applied
        return found

    def current(self) -> int | None:
        return self._folders.current()

    def switch(self) -> None:
        self._table()
        self._folders.show()

    def drop(self) -> None:
        self._folders.drop()
        self._staged.drop()

    # ---- the table --------------------------------------------------------------------------------

    @property
    def _staged(self) -> StagedFiles:
        return StagedFiles(self._folders.staging, self.shape)

    def _table(self) -> Any:
        try:
            return deltalake.DeltaTable(self._folders.mine)
        except TableNotFoundError as error:
            raise self._folders.absent() from error

    def _delta_schema(self) -> Any:
        schema = visible_schema(self.shape)
        unsigned = [f.name for f in schema if pa.types.is_unsigned_integer(f.type)]
        if unsigned:
            raise Misfit(f"Delta Lake has no unsigned numbers, and {unsigned[0]} is one")
        try:
            return deltalake.Schema.from_arrow(schema)
        except Exception as error:  # deltalake has no class of its own for this one
            said = str(error).splitlines()[0]
            raise Misfit(f"Delta Lake cannot hold the view {self.shape.view!r}: {said}") from error
