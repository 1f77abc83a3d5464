"""The partial failure: one write succeeds, the other does not, and there is no way back.

A client writes to the warehouse, then to the database, which is locked just then. The client can tell
its user that it failed; but the warehouse has the price already. Trying again later is no way out: by
then another client may have set a newer price, which the late write would undo.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import ExitStack
from pathlib import Path

from load import writes
from stores import Database, Warehouse, locked, told

DOWN = range(60, 90)
"""Of the items: while these are written, the database is locked."""


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "database"
        database, warehouse = Database(path), Warehouse(Path(folder) / "warehouse")
        failed = 0
        with ExitStack() as maintenance:
            for number, (first, _) in enumerate(writes()):
                if number == DOWN.start:
                    maintenance.enter_context(locked(path))
                if number == DOWN.stop:
                    maintenance.close()
                warehouse.put(*first)
                try:
                    database.put(*first)
                except sqlite3.OperationalError:  # database is locked
                    failed += 1
        print(f"{failed} clients were told that their write failed; half of it had not")
        print(told(warehouse, database))


if __name__ == "__main__":
    main()
