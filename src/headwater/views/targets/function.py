"""A Python function as a view's target, for side effects: mails, calls, caches of one's own.

    def notify(batch):
        for row in batch.rows():
            ...

    @hw.view("alerts", key="id", to=notify)

It is called on the driver, once for each batch that has rows, in order. What is promised: every batch
reaches it at least once, and none after a later one. A crash after it has done its work and before that
is noted makes the same batch come again, with the same `id`, the same `position` and the same rows (in
another order, perhaps). A function that keeps `batch.id` with its effect, in one transaction, and leaves out
what is not greater, is therefore exactly once; for one that cannot, a repeated effect must do no harm.
An error that it raises makes the batch come again after a while; `Unavailable` is the plain way to say so.

How far it is, is kept in the query's checkpoint folder (or that of the option `staging`): function.json.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater import atomic_file
from headwater.client.position import Position
from headwater.views.targets.contract import Applied, Fenced, Kind, Misfit, Part, Shape
from headwater.views.targets.write_only import WriteOnlyTarget

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

STATE = "function.json"


@dataclass(frozen=True)
class Batch:
    """What the function gets. Rows of a view with a key have `_deleted` as last column."""

    id: int
    position: Position
    """Of the view once this batch is done."""
    arrow: pa.Table

    def pandas(self) -> pd.DataFrame:
        """As a pandas DataFrame."""
        return self.arrow.to_pandas()

    def rows(self) -> list[dict[str, object]]:
        """As plain Python: a dict for each."""
        found: list[dict[str, Any]] = self.arrow.to_pylist()
        return found


class FunctionTarget(WriteOnlyTarget):
    """The function's position, and rows that wait for it."""

    kinds = frozenset(Kind)

    def __init__(
        self, function: Callable[[Batch], object], folder: Path, address: str, shape: Shape
    ) -> None:
        from headwater.views.targets.staged_files import StagedFiles

        super().__init__(address, shape)
        self._function: Callable[[Batch], object] | None = function
        self._state = folder / STATE
        self._staged = StagedFiles(folder / "staging", shape)

    def __getstate__(self) -> dict[str, Any]:
        """Tasks only stage: the function stays where it is called."""
        return {**self.__dict__, "_function": None}

    def create(self) -> None:
        atomic_file.make_folder(self._state.parent)
        said = self._read()
        owner = said.setdefault("view", self.shape.view)
        if owner != self.shape.view:
            raise Misfit(
                f"{self._state} says how far the view {owner!r} is, not {self.shape.view!r}",
                hint="name another folder with options={'staging': …}",
            )
        self._write(said)

    def can_widen(self) -> bool:
        return True

    def widen(self) -> None:
        """Its rows are the function's affair."""

    def claim(self) -> int:
        said = self._read()
        epoch = int(said.get("epoch", 0)) + 1
        self._write({**said, "epoch": epoch})
        return epoch

    def applied(self) -> Applied | None:
        said = self._read()
        if "batch" not in said:
            return None
        return Applied(said["batch"], said["epoch"], Position.from_json(said["position"]))

    def stage(self, batch: int, part: int, rows: Iterator[pa.RecordBatch]) -> Part:
        from headwater.views.targets.staged_files import Admission, staged_schema

        schema = staged_schema(self.shape)
        admission = Admission(self.shape, part, None)
        place = self._staged.write(batch, part, admission.admitted(rows), schema)
        return Part(part, place, admission.taken)

    def commit(self, applied: Applied, parts: Sequence[Part]) -> None:
        said = self._read()
        if int(said.get("epoch", 0)) > applied.epoch:
            raise Fenced(f"the function of the view {self.shape.view!r} has another caller now")
        if applied.batch > int(said.get("batch", -1)):
            if parts:
                if self._function is None:
                    raise Misfit(
                        f"the view {self.shape.view!r} is a function, which is called where the driver "
                        "runs: it cannot be a target over Spark Connect"
                    )
                rows = self._staged.table(parts)
                self._function(Batch(applied.batch, applied.position, rows))
            noted = {"batch": applied.batch, "position": applied.position.to_json()}
            self._write({**said, **noted})
        self._staged.clear(applied.batch)

    def versions(self) -> dict[int, Applied | None]:
        return {1: self.applied()}

    def _read(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads(self._state.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return found

    def _write(self, said: dict[str, Any]) -> None:
        atomic_file.write(self._state, json.dumps(said))
