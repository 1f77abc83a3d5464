"""What a batch is about to do, on disk before its target is told: so a replay does exactly the same.

A driver may end after the target has a batch and before the state has it. The batch then comes again, and
what is written here is done instead of being computed: a topic may meanwhile have been compacted, and a
sum of floating-point numbers depends on the order of its rows.

One file, `pending`, written beside and then renamed: a line with the batch and the names of what follows,
then for each an Arrow stream: t0, … the rows that change in each table; `rows` those that the view gets;
`gone` the keys that it loses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from headwater.log import atomic_file
from headwater.views.tables.store import Difference

FILE = "pending"


def write(folder: Path, batch: int, changes: Mapping[int, pa.Table], found: Difference) -> None:
    """On disk, whole, when this returns."""
    tables = {**{f"t{n}": table for n, table in changes.items()}, "rows": found.rows}
    tables["gone"] = found.gone
    with atomic_file.replacing(folder / FILE) as file:
        file.write(json.dumps({"batch": batch, "tables": list(tables)}).encode() + b"\n")
        for table in tables.values():
            with pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)


def read(folder: Path, batch: int) -> tuple[dict[int, pa.Table], Difference] | None:
    """What was written of this batch; None if it had not come so far."""
    try:
        file = (folder / FILE).open("rb")
    except FileNotFoundError:
        return None
    with file:
        said = json.loads(file.readline())
        if said["batch"] != batch:
            return None
        tables = {name: pa.ipc.open_stream(file).read_all() for name in said["tables"]}
    changes = {int(name[1:]): table for name, table in tables.items() if name[0] == "t"}
    return changes, Difference(tables["rows"], tables["gone"])
