"""The folder of checkpoints: one below it for each query, and in each a note of the query it is of.

Written when a query first starts, compared at every later start. A query whose note differs is
refused before Spark touches the checkpoint: Spark itself notices some changes only as broken state, and
others (another window, another output mode) not at all.

    ROOT/.lock              held by the driver as long as it lives
    ROOT/spark.log          Spark's own log
    ROOT/NAME/headwater.json
        {"sources": ["headwater orders"], "state": ["Aggregate …"], "mode": "update", "to": "topic:x",
         "format": 1}
    ROOT/NAME/batch_records_max   of a query whose batches took too long: how many records it manages
    ROOT/NAME/…             Spark's offsets, commits and state

On a local path the note is a file; elsewhere (hdfs://, s3a://, a Spark Connect server) Spark writes it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater import atomic_file, format_version
from headwater.local_path import for_spark, local_path
from headwater.pipelines.declarations import View
from headwater.pipelines.errors import PipelineError, StateMisfit
from headwater.secrets import are_alike, shown
from headwater.views import offset_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOTE, LIMIT = "headwater.json", "batch_records_max"
FORMAT = 1
"""Of a checkpoint, the state beside it included."""


@dataclass(frozen=True)
class Shape:
    """The part of a query that its checkpoint depends on."""

    sources: tuple[str, ...]
    state: tuple[str, ...]
    mode: str
    to: str

    def difference(self, before: Shape) -> str | None:
        """What changed since `before`, as the end of a sentence."""
        if self.sources != before.sources:
            return f"its sources were {_listed(before.sources)} and are now {_listed(self.sources)}"
        if self.state != before.state:
            return _state_difference(before.state, self.state)
        if self.mode != before.mode:
            return f"its output mode was {before.mode} and is now {self.mode}"
        if not are_alike(self.to, before.to):
            return f"its target was {shown(before.to)} and is now {shown(self.to)}"
        return None


class Checkpoints:
    """Where queries remember how far they are."""

    def __init__(self, root: str, spark: SparkSession, *, remote: bool = False) -> None:
        self._spark = spark
        self.remote = remote
        local = None if remote else local_path(root)
        self.is_local = local is not None
        self.root = root.rstrip("/") if local is None else str(local)

    def of(self, name: str) -> str:
        """The folder of one query, as Spark's `checkpointLocation`."""
        return f"{self.root}/{name}"

    def is_new(self, name: str) -> bool:
        """Whether the query has never started here."""
        return self._read(name) is None

    def admit(self, name: str, shape: Shape, *, evolves: bool = False) -> None:
        """Let the query use its folder; StateMisfit if what is there belongs to another query. `evolves`: its
        state is being brought to what it is now."""
        before = self._read(name)
        if before is None:
            self.note(name, shape)
        elif difference := shape.difference(
            replace(before, state=shape.state) if evolves else before
        ):
            raise self.misfit(name, difference)

    def forget_batch(self, name: str) -> int | None:
        """Let a batch that was planned and is not committed be planned anew; how many records it had.

        Only for a batch of which nothing has come out. None where there is no such batch, or where the
        checkpoint is not on this machine.
        """
        if not self.is_local:
            return None
        planned, done = (
            offset_log.last_batch(Path(self.of(name)) / kind) for kind in ("offsets", "commits")
        )
        if planned is None or planned == done:
            return None
        folder = Path(self.of(name))
        path = folder / "offsets" / str(planned)
        records = _records_of(path)
        _forget_plans(folder, planned)
        path.unlink()
        path.with_name(f".{planned}.crc").unlink(missing_ok=True)
        atomic_file.sync_folder(path.parent)
        return records

    def with_limit(self, view: View) -> View:
        """The view with the largest batch that it is known to manage, from an earlier run."""
        known = self._limit(view.checkpoint)
        if known is None:
            return view
        return replace(view, batch_records_max=min(known, view.batch_records_max or known))

    def keep_limit(self, name: str, records: int) -> None:
        """Let later runs know it, too. Only where the checkpoint is on this machine."""
        atomic_file.write(Path(self.of(name)) / LIMIT, f"{records}\n")

    def _limit(self, name: str) -> int | None:
        if not self.is_local:
            return None
        try:
            return int((Path(self.of(name)) / LIMIT).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None  # a damaged one is found out again by a batch that takes too long

    def misfit(self, name: str, difference: str) -> StateMisfit:
        """The sentence for a query that was edited, and what to do about it."""
        folder = self.of(name)
        return StateMisfit(
            f"the view {name!r} no longer fits its checkpoint: {difference}",
            hint=f"undo the change, or give the view a new name, or let it start over with: "
            f"mv {folder} {folder}.old (a view in a store: headwater rebuild {name.partition('@')[0]})",
        )

    def _read(self, name: str) -> Shape | None:
        text = self._read_local(name) if self.is_local else self._read_by_spark(name)
        if text is None:
            return None
        try:
            said: dict[str, Any] = json.loads(text)
            format_version.check(f"the checkpoint of {name!r}", said.get("format"), FORMAT)
            return Shape(tuple(said["sources"]), tuple(said["state"]), said["mode"], said["to"])
        except format_version.NewerFormat as error:  # a query is refused by it, and not tried again
            raise PipelineError(error.sentence, hint=error.hint) from None
        except (ValueError, KeyError, TypeError, AttributeError):
            folder = self.of(name)
            raise PipelineError(
                f"{folder}/{NOTE}, headwater's own note on the checkpoint, cannot be read",
                hint=f"bring it back from a backup, or let the view start over: mv {folder} {folder}.old",
            ) from None

    def note(self, name: str, shape: Shape) -> None:
        """That the folder is this query's."""
        text = json.dumps({**asdict(shape), "format": FORMAT})
        if not self.is_local:
            rows = self._spark.createDataFrame([(text,)], "value STRING")
            rows.coalesce(1).write.mode("overwrite").text(f"{self.of(name)}/{NOTE}")
            return
        note = Path(self.of(name)) / NOTE
        atomic_file.make_folder(note.parent)
        atomic_file.write(note, text + "\n")

    def _read_local(self, name: str) -> str | None:
        try:
            return (Path(self.of(name)) / NOTE).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def _read_by_spark(self, name: str) -> str | None:
        from pyspark.errors import AnalysisException

        try:
            rows = self._spark.read.text(for_spark(f"{self.of(name)}/{NOTE}")).collect()
        except AnalysisException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return None
            raise
        return str(rows[0][0]) if rows else None


def _forget_plans(folder: Path, batch: int) -> None:
    """What a view over tables has worked out for the batch: it is made of other records now."""
    from headwater.views.tables import journal

    (folder / "tables" / "pending").unlink(missing_ok=True)
    (folder / "tables" / "manifests" / str(batch)).unlink(missing_ok=True)
    (folder / "tables" / "manifests" / f".{batch}.crc").unlink(missing_ok=True)
    journal.forget(folder / "tables", batch)
    for path in (folder / "held").glob(f"{batch}.*"):
        path.unlink()


def _records_of(path: Path) -> int:
    """How many records a batch has at most: to its end from that of the one before, or from offset 0."""
    end = offset_log.parse(path.read_text(encoding="utf-8")).offsets
    before = path.with_name(str(int(path.name) - 1))
    start = offset_log.parse(before.read_text(encoding="utf-8")).offsets if before.exists() else {}
    return sum(
        max(0, offset - start.get(topic, {}).get(partition, 0))
        for topic, partitions in end.items()
        for partition, offset in partitions.items()
    )


def _state_difference(before: tuple[str, ...], now: tuple[str, ...]) -> str:
    if not before:
        return "it now keeps state, which it did not"
    if not now:
        return "it no longer keeps state, which it did"
    kinds = sorted({text.partition(" ")[0].lower() for text in {*before} ^ {*now}})
    return f"what it keeps as state has changed ({', '.join(kinds)})"


def _listed(sources: tuple[str, ...]) -> str:
    return ", ".join(sources) or "none"
