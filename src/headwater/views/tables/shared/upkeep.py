"""One micro-batch of a view over tables whose state is on shared storage: the four steps, by executors.

    1  the rows that change, as they were and as they are                         (net)
    2  the view's keys that they touch, before in the old state, after in the new (views.tables.program)
    3  the view's function on the rows that decide over these keys
    4  the difference from what the view holds                                    (difference)

    then   the manifest, with all of it ──▶ the target, with the position ──▶ Spark's commit of the batch

What lies between two steps is a file of the batch's attempt, so each is computed once, and a lost worker
costs its tasks alone. The driver plans, and knows numbers of rows and names of files; it holds no row.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headwater.views.tables.plan import Plan
from headwater.views.tables.shared import takeover
from headwater.views.tables.shared.chain import MANIFESTS, Chain
from headwater.views.tables.shared.difference import ViewLayout
from headwater.views.tables.shared.folder import Folder
from headwater.views.tables.shared.manifest import Manifest, nothing
from headwater.views.tables.shared.pieces import Files
from headwater.views.tables.shared.steps import Function, Steps, layout_of
from headwater.views.targets.contract import Misfit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Changes = Callable[[Files, str], Sequence["DataFrame"]]
"""The changes of each table, as files under a name."""
Write = Callable[["DataFrame"], None]
"""Brings a difference into the target, unless that has the batch."""


def has_manifests(folder: Path) -> bool:
    """Whether the state in a folder of the driver's is shared already."""
    return (folder / MANIFESTS).is_dir()


class SharedUpkeep:
    """A view over tables, kept current by one run of its query."""

    def __init__(self, spark: SparkSession, plan: Plan, folder: Folder, result: StructType) -> None:
        self.plan = plan
        self._folder, self._chain = folder, Chain(folder)
        self._view = ViewLayout(result, plan.key)
        self._layouts = [layout_of(table, spark) for table in plan.tables]
        self.state = self._known()

    @property
    def batch(self) -> int:
        """The last that is in the state; its target may not have it."""
        return self.state.batch

    def _known(self) -> Manifest:
        found = self._chain.newest()
        if found is None:
            return nothing(self.plan.query, len(self.plan.tables))
        if found.query != self.plan.query:
            raise Misfit(
                f"the state in {self._folder.address} is that of another query; rebuild the view, with "
                "headwater rebuild or another name"
            )
        return found

    def take_over(self, spark: SparkSession, folder: Path, function: Function) -> None:
        """Begin with what one machine kept in a file there, where there is nothing else; else that was done
        before, and only the file is left."""
        if self.batch < 0:
            files = Files(spark, self._folder.address)
            found = takeover.taken_over(
                self.plan, folder, files, self._layouts, self._view, function
            )
            if found.batch >= 0:
                self._chain.add(found, self.state)
                self.state = found
        takeover.remove_file(folder)

    def apply(
        self, spark: SparkSession, batch: int, changes: Changes, function: Function, write: Write
    ) -> None:
        """Bring a batch into the state and the view; one that is in the state, into the view again."""
        if batch > self.batch + 1:
            raise Misfit(
                f"the checkpoint of the view {self.plan.name!r} goes on with batch {batch}, and the "
                f"state of its tables ends with {self.batch}; put back what is missing, or rebuild the "
                "view with headwater rebuild"
            )
        files = Files(spark, self._folder.address)
        if batch == self.batch + 1:
            attempt = f"{batch}-{uuid.uuid4().hex[:12]}"
            work = Steps(self.plan, files, self._layouts, self._view, batch, attempt)
            found = work.run(self.state, changes(files, f"{attempt}/changes"), function)
            self._chain.add(found, self.state)
            before, self.state = self.state, found
            self._chain.clean(before, found, attempt)
        write(self._difference(files))

    def _difference(self, files: Files) -> DataFrame:
        piece = self.state.difference
        if piece is None:
            return self._view.nothing_for_target(files.spark)
        return self._view.for_target(files.read([piece.name], self._view.columns))
