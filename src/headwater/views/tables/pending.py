"""What a batch is about to do, on disk before its target is told: so a replay does exactly the same.

A driver may end after the target has a batch and before the state has it. The batch then comes again, and
what is written here is done instead of being computed: a topic may meanwhile have been compacted, and a
sum of floating-point numbers depends on the order of its rows.

    pending/BATCH/t0.arrow …   the rows that change in each table
    pending/BATCH/rows.arrow   the rows that the view gets
    pending/BATCH/gone.arrow   the keys that it loses
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from headwater.views.tables.store import Difference

FOLDER = "pending"


def write(folder: Path, batch: int, changes: Mapping[int, pa.Table], found: Difference) -> None:
    """On disk, whole, when this returns."""
    place = folder / FOLDER / str(batch)
    fresh = place.with_suffix(".tmp")
    for leftover in (fresh, place):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh.mkdir(parents=True)
    tables = {f"t{n}": table for n, table in changes.items()}
    for name, table in {**tables, "rows": found.rows, "gone": found.gone}.items():
        with (fresh / f"{name}.arrow").open("wb") as file:
            with pa.ipc.new_file(file, table.schema) as writer:
                writer.write_table(table)
            file.flush()
            os.fsync(file.fileno())
    fresh.rename(place)
    _sync(place.parent)


def read(folder: Path, batch: int) -> tuple[dict[int, pa.Table], Difference] | None:
    """What was written of this batch; None if it had not come so far."""
    place = folder / FOLDER / str(batch)
    if not place.is_dir():
        return None
    tables = {}
    for path in place.glob("*.arrow"):
        with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
            tables[path.stem] = reader.read_all()
    changes = {int(name[1:]): table for name, table in tables.items() if name[0] == "t"}
    return changes, Difference(tables["rows"], tables["gone"])


def forget(folder: Path, batch: int) -> None:
    shutil.rmtree(folder / FOLDER / str(batch), ignore_errors=True)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
