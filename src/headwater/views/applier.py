"""A micro-batch into its target: arranged, staged by the tasks, committed once with its position.

Also here: the foreachBatch of every view that lives in a target; runs on the driver.

    arrange   the last change of each key, all rows of a key in one task    (order)
    stage     each task puts its part aside; few rows the driver            (Target.stage)
    letters   rows that the target refused go to the dead-letter topic      (dead_letters)
    commit    the parts and the position become visible together            (Target.commit)

A refused row counts as if its record had never been: the key keeps what it had. Where rows are not records
but states of a result (aggregates, views over tables), what was before depends on where a batch ends, so
there a refused row takes the key's row away. Either way the view is a function of the log.

A batch must follow the one that the target has applied last, or be that one again, with the same
position; then nothing is done. Anything else means that checkpoint and store are not of one life (a
backup put back, a folder removed), and is refused before rows are lost or doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from headwater.client.position import Position
from headwater.errors import HeadwaterError
from headwater.local_path import local_path
from headwater.views import offset_log, order
from headwater.views.batch_name import is_connect
from headwater.views.dead_letters import Letters, Origin, RefusedRow
from headwater.views.operate.pause import wait_while_held
from headwater.views.stage import (
    ROWS_AT_ONCE,
    Staged,
    deletes,
    find_origins,
    identity,
    key_text,
    stage_part,
    stage_rows,
    with_keys,
)
from headwater.views.targets.contract import (
    Applied,
    Kind,
    Misfit,
    Part,
    Refusal,
    RowsRefused,
    Target,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

TAKEN_AWAY = 1_000_000
"""From here on, numbers of parts that are no task's."""
FEW = 2_000
"""Records of a batch, and rows of the one before it, up to which the driver takes its rows as they are: for
few of them an exchange and a worker of Python's cost more than all the rest."""
REFUSED_MAX = 10_000
"""Of one batch. More are no bad rows but a view that does not fit its target."""


class RowRefused(HeadwaterError):
    """The target does not take a row, and the view is to stop at the first."""


class Applying:
    """One version of a view, kept in step with the log by one run of its query."""

    def __init__(
        self,
        target: Target,
        checkpoint: str,
        letters: Letters | None = None,
        *,
        states: bool = False,
    ) -> None:
        """Without `letters` the first refused row stops the query. `states`: what rows are, see above."""
        self.target = target
        self._states = states and target.shape.kind is Kind.UPSERT
        self._every = False
        self.checkpoint = checkpoint
        self._letters = letters
        self._epoch = -1
        self._applied: Applied | None = None
        self._last_rows: int | None = None
        """Of the batch before, in this run."""

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """What Spark calls for each batch."""
        self.apply(frame, batch, self.position_of(frame.sparkSession, batch))

    def position_of(self, spark: SparkSession, batch: int) -> Position:
        return offset_log.position_of(self.checkpoint, batch, spark)

    def begin(self) -> Applied | None:
        """Make the place and become its writer, once; how far the view is."""
        if self._epoch < 0:
            self.target.create()
            self._epoch = self.target.claim()
            self._every = self.target.judges_rows()
            self._applied = self.target.applied()
        return self._applied

    def is_due(self, batch: int, position: Position) -> bool:
        """False for a batch that came again; Misfit for one that cannot be the next."""
        known = self.begin()
        if batch == (0 if known is None else known.batch + 1):
            return True
        if known is not None and batch == known.batch and position == known.position:
            return False
        where = "nothing" if known is None else f"batch {known.batch} at {known.position}"
        raise Misfit(
            f"the checkpoint of the view {self.target.shape.view!r} goes on with batch {batch} to "
            f"{position}, and {self.target.address} has {where}: they are not of one life; put back "
            f"what is missing, or rebuild the view with headwater rebuild"
        )

    def apply(self, frame: DataFrame, batch: int, position: Position) -> None:
        """Bring the rows of a batch into the target, unless they are there."""
        if not self.is_due(batch, position):
            # Where the query has state, Spark's part of this batch must be written all the same.
            frame.write.format("noop").mode("overwrite").save()
            return
        applied = Applied(batch, self._epoch, position)
        few, self._last_rows = self._has_few(frame, position), None
        staged = [self._stage_here(frame, batch)] if few else self._stage(frame, batch)
        self._bring(staged, applied, frame.sparkSession, lambda: frame)

    def apply_few(
        self,
        rows: pa.Table,
        batch: int,
        position: Position,
        spark: SparkSession,
        frame: Callable[[], DataFrame],
    ) -> None:
        """The same for rows that were computed and arranged (`order.arranged`, not spread): few of them.
        `frame` gives them once more, to find out where refused ones came from."""
        if not self.is_due(batch, position):
            return
        applied = Applied(batch, self._epoch, position)
        self._bring([self._staged(rows, batch)], applied, spark, frame)

    def _bring(
        self,
        staged: Sequence[Staged],
        applied: Applied,
        spark: SparkSession,
        frame: Callable[[], DataFrame],
    ) -> None:
        refused = [each for part in staged for each in part.part.refused]
        self._refuse(refused, applied, 0, spark, frame)
        parts = [each.part for each in staged if each.part.rows]
        parts += self._taken_away(applied.batch, refused)
        self._commit(applied, parts, spark, frame)
        self._applied = applied
        self._last_rows = sum(each.part.rows for each in staged)

    def apply_rows(
        self, rows: pa.Table, batch: int, position: Position, spark: SparkSession
    ) -> None:
        """The same for rows that are on the driver already, each key once; `_deleted` among them."""
        if not self.is_due(batch, position):
            return
        applied = Applied(batch, self._epoch, position)
        parts: list[Part] = []
        refused: list[Refusal] = []
        shape, given = self.target.shape, rows.to_batches(ROWS_AT_ONCE)
        kept = [b for each in given if (b := with_keys(shape, each, 0, refused)).num_rows]
        if kept:
            part = self.target.stage(batch, 0, iter(kept))
            parts = [part] if part.rows else []
            refused += part.refused
        self._refuse(refused, applied, 0, spark)
        parts += self._taken_away(batch, refused)
        self._commit(applied, parts, spark)
        self._applied = applied

    def _has_few(self, frame: DataFrame, position: Position) -> bool:
        """Whether a batch probably has few rows. Nobody knows before it is computed: a window may close for
        many keys at once. Where they are too many for the driver the query fails, and begins with tasks."""
        known, rows = self._applied, self._last_rows
        if known is None or rows is None or not position.offsets:
            return False
        few = rows <= FEW and known.position.behind(position) <= FEW
        return few and not is_connect(frame.sparkSession)

    def _stage_here(self, frame: DataFrame, batch: int) -> Staged:
        return self._staged(order.arranged(frame, self.target.shape, spread=False).toArrow(), batch)

    def _staged(self, rows: pa.Table, batch: int) -> Staged:
        given = iter(rows.to_batches(ROWS_AT_ONCE))
        return Staged(stage_rows(self.target, batch, 0, given, every=self._every))

    def _stage(self, frame: DataFrame, batch: int) -> list[Staged]:
        target, every = self.target, self._every

        def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from stage_part(target, batch, rows, every=every)

        rows = order.arranged(frame, target.shape)
        found = rows.mapInArrow(task, "part STRING").collect()
        return [Staged.from_json(text) for (text,) in found]

    def _commit(
        self,
        applied: Applied,
        parts: Sequence[Part],
        spark: SparkSession,
        frame: Callable[[], DataFrame] | None = None,
    ) -> None:
        turn, given = 0, list(parts)
        while True:
            if (folder := local_path(self.checkpoint)) is not None:
                wait_while_held(folder)
            try:
                self.target.commit(applied, given)
                return
            except RowsRefused as error:
                turn += 1
                self._refuse(error.refusals, applied, turn, spark, frame)
                given += self._taken_away(applied.batch, error.refusals, turn)

    def _taken_away(self, batch: int, refusals: Sequence[Refusal], turn: int = 0) -> list[Part]:
        """A part that deletes the keys of refused states."""
        gone = deletes(self.target.shape, refusals) if self._states else None
        if gone is None:
            return []
        part = self.target.stage(batch, TAKEN_AWAY + turn, iter([gone]))
        return [part] if part.rows else []  # a key that cannot be there need not go

    # ---- refused rows -----------------------------------------------------------------------------

    def _refuse(
        self,
        refusals: Sequence[Refusal],
        applied: Applied,
        turn: int,
        spark: SparkSession,
        frame: Callable[[], DataFrame] | None = None,
    ) -> None:
        if not refusals:
            return
        view, first = self.target.shape.view, refusals[0]
        if self._letters is None:
            raise RowRefused(
                f"{self.target.address} refuses a row of the view {view!r}: {first.reason}; "
                f"{first.row}"
            )
        if len(refusals) > REFUSED_MAX:
            raise RowRefused(
                f"{self.target.address} refuses {len(refusals)} rows of one batch of the view "
                f"{view!r}, the first because: {first.reason}; {first.row}"
            )
        origins = {} if frame is None else self._origins(frame(), refusals)
        shape = self.target.shape
        known = []
        for each in refusals:
            found = origins.get(identity(shape, each.row), [])
            # Records with the same row are told apart: each is the origin of one letter.
            origin = found.pop(0) if len(found) > 1 else next(iter(found), None)
            known.append(RefusedRow(each, origin, key_text(shape.key, each.row)))
        self._letters.put(spark, known, applied, turn)

    def _origins(self, frame: DataFrame, refusals: Iterable[Refusal]) -> dict[str, list[Origin]]:
        """Which records the rows came from: looked for in the batch once more, as this is rare."""
        if not order.has_record(frame):
            return {}
        shape = self.target.shape
        wanted = frozenset(identity(shape, each.row) for each in refusals)

        def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            yield from find_origins(shape, wanted, rows)

        names = [order.quoted(name) for name in (*shape.schema.names, *order.RECORD)]
        columns = "row STRING, topic STRING, partition INT, offset LONG"
        found = frame.select(*names).mapInArrow(task, columns).collect()
        by_row: dict[str, list[Origin]] = {}
        for row, *origin in sorted(found):
            by_row.setdefault(row, []).append(Origin(*origin))
        return by_row
