"""How far a view is, in the log of its Delta table.

Each commit has two application transactions, which Delta keeps for good, and its metadata:

    headwater-epoch     the writer's epoch
    headwater-batch     the last batch + 1
    headwater           in the commit's metadata: {"batch": 7, "epoch": 2, "position": {"orders": {"0": 40}}}
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import deltalake

from headwater.client.position import Position
from headwater.views.targets.contract import Applied, Misfit
from headwater.views.targets.version_folders import sync

EPOCH, BATCH, METADATA = "headwater-epoch", "headwater-batch", "headwater"


@dataclass(frozen=True)
class Mark:
    """What a commit says of the view."""

    epoch: int
    applied: Applied | None

    @classmethod
    def of(cls, applied: Applied) -> Mark:
        return cls(applied.epoch, applied)

    def claimed(self, epoch: int) -> Mark:
        return Mark(epoch, self.applied)

    def properties(self) -> deltalake.CommitProperties:
        """Transactions and metadata for a commit."""
        known = self.applied
        numbers = {EPOCH: self.epoch, BATCH: known.batch + 1 if known else 0}
        said = None
        if known is not None:
            position = json.loads(known.position.to_json())
            said = {"batch": known.batch, "epoch": known.epoch, "position": position}
        return deltalake.CommitProperties(
            custom_metadata={METADATA: json.dumps(said)},
            app_transactions=[
                deltalake.Transaction(app_id=name, version=number)
                for name, number in numbers.items()
            ],
        )


class CommitLog:
    """The log of a table as it was when the table was read."""

    def __init__(self, table: Any) -> None:
        self.table = table
        epoch = table.transaction_version(EPOCH) or 0
        batch = (table.transaction_version(BATCH) or 0) - 1
        self.mark = Mark(epoch, None if batch < 0 else Applied(batch, epoch, self._position(batch)))

    def commit_nothing(self, mark: Mark) -> None:
        """A commit that says only how far the view is, or who writes it."""
        self.table.create_write_transaction(
            [], "append", self.table.schema(), commit_properties=mark.properties()
        )
        self.sync()

    def widen(self, schema: deltalake.Schema) -> None:
        """A commit that gives the table the columns that it has not."""
        known = {each.name for each in self.table.schema().fields}
        new = [each for each in schema.fields if each.name not in known]
        if new:
            self.table.alter.add_columns(new)
            self.sync()

    def sync(self) -> None:
        """To the disk with what the last commit has added: delta-rs leaves that to the system."""
        self.table.update_incremental()
        folder = Path(unquote(self.table.table_uri.removeprefix("file://")))
        log = folder / "_delta_log"
        entry = log / f"{self.table.version():020}.json"
        touched = {log, folder}
        for line in entry.read_text(encoding="utf-8").splitlines():
            added = json.loads(line).get("add")
            if added:
                path = folder / unquote(added["path"])
                touched |= {path, path.parent}
        for path in (entry, *touched):
            sync(path)

    def _position(self, batch: int) -> Position:
        """From the newest commit of the view; others (a compaction by hand) may stand before it."""
        for limit in (1, 50, None):
            for entry in self.table.history(limit):
                if entry["version"] > self.table.version():
                    continue  # newer than what was read
                said = json.loads(entry.get(METADATA, "null"))
                if said is not None and said["batch"] == batch:
                    return Position.from_json(json.dumps(said["position"]))
        raise Misfit(
            f"the log of {self.table.table_uri} does not say any more where the view is",
            hint="commits after it were kept, it was not: headwater rebuild makes a new version",
        )
