"""Views in Delta Lake tables: `delta:PATH`, one table for each version, `PATH/current` for readers.

Made by the registry; called by the runner and by every command that opens a view. A batch is one commit of
Delta, and the commit says how far the view is: application transactions hold the writer's epoch and the
batch, its metadata holds the position. Delta refuses a commit when another one has touched the same
application transactions since the table was read, and that is what keeps a replaced writer out.

    option partition_by    columns that make folders, as in `day,country` (`partitions` says which can)
    option compact_every   after so many batches small files are joined, and old ones removed (100)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from headwater.local_path import local_path
from headwater.views.targets.libraries import missing

try:
    import deltalake
    import pyarrow as pa
    from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
except ModuleNotFoundError as error:
    raise missing(error, "delta", "warehouse") from error

from headwater.errors import HeadwaterError
from headwater.views.targets.contract import (
    VALID_FROM,
    Applied,
    Fenced,
    Kind,
    Misfit,
    Part,
    Shape,
    Unavailable,
)
from headwater.views.targets.delta.commit_log import CommitLog, Mark
from headwater.views.targets.delta.merge import merge_history, merge_rows, wanted
from headwater.views.targets.delta.partitions import (
    must_make_folders,
    partition_columns,
    unfit_for_folders,
)
from headwater.views.targets.libraries import os_error_passes, text_passes
from headwater.views.targets.schema_fit import must_fit
from headwater.views.targets.sql.names import must_be_usable
from headwater.views.targets.staged_files import (
    Admission,
    FolderTarget,
    staged_schema,
    visible_schema,
)
from headwater.views.targets.years import far_times

COMPACT_EVERY = 100
KEEP_FILES_HOURS = 168
"""Files that no commit needs any more stay a week for readers of older versions, as Delta advises."""


class DeltaTarget(FolderTarget):
    """A view as a Delta table in a folder that driver and executors see."""

    kinds = frozenset(Kind)
    scheme = "delta"

    def __init__(self, address: str, shape: Shape) -> None:
        super().__init__(address, shape)
        if local_path(self.rest) is None:
            raise Misfit(
                f"{address} is not a folder", hint="write delta:PATH, as in delta:data/orders"
            )

    # ---- the driver, when a query starts ----------------------------------------------------------

    def create(self) -> None:
        must_be_usable(self.shape, "Delta Lake", folded=True)
        must_make_folders(self.shape)
        wanted_schema = self._delta_schema()
        self._folders.own()
        try:
            table = self._table()
        except Misfit:
            try:
                table = deltalake.DeltaTable.create(
                    self._folders.mine, wanted_schema, partition_by=partition_columns(self.shape)
                )
            except (OSError, DeltaError) as error:
                raise self._trouble(error) from error
            CommitLog(table).sync()
        self._must_fit(table)
        self._folders.show_first()

    def can_widen(self) -> bool:
        return True

    def widen(self) -> None:
        if self._folders.mine.is_dir():
            self._committing(lambda log: log.widen(self._delta_schema()))

    def claim(self) -> int:
        def next_epoch(log: CommitLog) -> int:
            epoch = log.mark.epoch + 1
            log.commit_nothing(log.mark.claimed(epoch))
            return epoch

        return int(self._committing(next_epoch))

    def applied(self) -> Applied | None:
        return CommitLog(self._table()).mark.applied if self._folders.mine.is_dir() else None

    # ---- tasks ------------------------------------------------------------------------------------

    def refused(self, rows: pa.RecordBatch) -> Iterator[tuple[int, str]]:
        # deltalake keeps far times, and then cannot open the table: its statistics name the first and last.
        since = [VALID_FROM] if self.shape.kind is Kind.HISTORY else []
        yield from far_times(rows, [*self.shape.schema.names, *since])
        yield from unfit_for_folders(rows, self.shape)

    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Part:
        schema = staged_schema(self.shape)
        admission = Admission(self.shape, part, self.refused)
        place = self._staged.write(batch, part, admission.admitted(rows), schema)
        return Part(part, place, admission.taken, tuple(admission.refused))

    # ---- the driver, at the end of a batch --------------------------------------------------------

    def commit(self, applied: Applied, parts: Sequence[Part]) -> None:
        def apply(log: CommitLog) -> None:
            if applied.epoch < log.mark.epoch:
                raise Fenced(f"another writer has taken over {self._folders.mine}")
            if log.mark.applied is None or applied.batch > log.mark.applied.batch:
                self._apply(log, Mark.of(applied), parts)
                self._compact(log.table, applied)

        self._committing(apply)
        self._staged.clear(applied.batch)

    def correct(self, applied: Applied, parts: Sequence[Part]) -> bool:
        """Change rows without moving the position, if the version is still where it was."""

        def apply(log: CommitLog) -> bool:
            if log.mark.applied != applied:
                return False
            self._apply(log, log.mark, parts)
            return True

        stood = bool(self._committing(apply))
        self._staged.remove(parts)
        return stood

    def _apply(self, log: CommitLog, mark: Mark, parts: Sequence[Part]) -> None:
        if not parts:
            log.commit_nothing(mark)
            return
        self._must_fit(log.table)  # a merge leaves out what the table has no column for
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
            try:
                return change(CommitLog(self._table()))
            except CommitFailedError:
                return change(CommitLog(self._table()))
        except (OSError, DeltaError) as error:
            raise self._trouble(error) from error

    def _trouble(self, error: OSError | DeltaError) -> HeadwaterError:
        said = " ".join(str(error).split())
        passes = isinstance(error, CommitFailedError) or text_passes(said)
        if passes or (isinstance(error, OSError) and os_error_passes(error)):
            return Unavailable(f"{self._folders.mine} cannot be used now: {said}")
        return Misfit(
            f"{self._folders.mine} does not take the view {self.shape.view!r}: {said}",
            hint="put back what was changed by hand, or rebuild the view with "
            f"headwater rebuild {self.shape.view}",
        )

    # ---- readers ----------------------------------------------------------------------------------

    @contextmanager
    def reading(
        self, keys: pa.Table | None = None
    ) -> Iterator[tuple[Applied | None, Iterator[pa.RecordBatch]]]:
        table = self._table()
        rows = table.to_pyarrow_dataset()
        names = visible_schema(self.shape).names
        applied = CommitLog(table).mark.applied
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
            found[version] = CommitLog(table).mark.applied
        return found

    # ---- the table --------------------------------------------------------------------------------

    def _require(self) -> None:
        self._table()

    def _table(self) -> Any:
        try:
            return deltalake.DeltaTable(self._folders.mine)
        except TableNotFoundError as error:
            raise self._folders.absent() from error

    def _must_fit(self, table: Any) -> None:
        where = f"the Delta table {self._folders.mine}"
        must_fit(self.shape, where, _types(table.schema()), _types(self._delta_schema()))

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


def _types(schema: Any) -> dict[str, str]:
    """As Delta Lake writes them: `{"name":"total","type":"double",…}`."""
    fields = json.loads(schema.to_json())["fields"]
    return {each["name"]: _said(each["type"]) for each in fields}


def _said(kind: Any) -> str:
    return kind if isinstance(kind, str) else json.dumps(kind)
