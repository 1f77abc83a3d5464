"""What a batch is about to do, on disk before its target is told: so a replay does exactly the same.

A driver may end after the target has a batch and before the state has it. The batch then comes again, and
what is written here is done instead of being computed: a topic may meanwhile have been compacted, and a
sum of floating-point numbers depends on the order of its rows.

One file, `pending`, written beside and then renamed: a line with the batch and the names of what follows,
then for each an Arrow stream: t0, … the rows that change in each table; `rows` those that the view gets;
`gone` the keys that it loses; `aside`, where there are any, those that are set aside, and why (`set_aside`).
The entries of `journal` are the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from headwater import atomic_file
from headwater.views.tables.store import Difference

FILE = "pending"


def write(folder: Path, batch: int, changes: Mapping[int, pa.Table], found: Difference) -> None:
    """On disk, whole, when this returns."""
    with atomic_file.replacing(folder / FILE) as file:
        put(file, batch, changes, found)


def put(file: BinaryIO, batch: int, changes: Mapping[int, pa.Table], found: Difference) -> None:
    tables = {**{f"t{n}": table for n, table in changes.items()}, "rows": found.rows}
    tables["gone"] = found.gone
    if found.aside is not None:
        tables["aside"] = found.aside
    file.write(json.dumps({"batch": batch, "tables": list(tables)}).encode() + b"\n")
    for table in tables.values():
        with pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)


@dataclass(frozen=True)
class Entry:
    """What a batch did, or was about to do."""

    batch: int
    changes: Mapping[int, pa.Table]
    difference: Difference

    def with_columns(self, schema: pa.Schema) -> Entry:
        """With the view's columns of now: what was written before it got some has nulls there."""
        found = self.difference
        rows = found.rows
        if rows.schema.names == schema.names:
            return self
        columns = [
            rows[each.name] if each.name in rows.column_names else pa.nulls(len(rows), each.type)
            for each in schema
        ]
        fitted = pa.table(columns, schema=schema.empty_table().schema)
        return replace(self, difference=replace(found, rows=fitted))


def read(folder: Path, batch: int) -> Entry | None:
    """What was written of this batch; None if it had not come so far."""
    try:
        file = (folder / FILE).open("rb")
    except FileNotFoundError:
        return None
    with file:
        return taken(file, batch)


def taken(file: BinaryIO, batch: int) -> Entry | None:
    """What follows in a file, if it is of this batch."""
    said = json.loads(file.readline())
    if said["batch"] != batch:
        return None
    tables = {name: pa.ipc.open_stream(file).read_all() for name in said["tables"]}
    changes = {int(name[1:]): table for name, table in tables.items() if name[0] == "t"}
    return Entry(
        batch, changes, Difference(tables["rows"], tables["gone"], aside=tables.get("aside"))
    )
