"""The race: two clients write the same item to two systems, and the writes cross on their way.

    client 1   price 10 ─▶ database ─────────────────────▶ warehouse
    client 2        price 110 ─▶ database ─▶ warehouse

The database ends with 110, the warehouse with 10. Nobody got an error, and nobody will ever know.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from load import interleavings, writes
from stores import Database, Warehouse, told


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "database")
        warehouse = Warehouse(Path(folder) / "warehouse")
        for clients, order in zip(writes(), interleavings(2), strict=False):
            todo = [[(system, write) for system in (database, warehouse)] for write in clients]
            for client in order:
                system, (item, price) = todo[client].pop(0)
                system.put(item, price)
        print(told(database, warehouse))


if __name__ == "__main__":
    main()
