"""Connections that see the database at one and the same place of the binary log; called by `source`.

MariaDB keeps its binary log in step with InnoDB's views and says to which place a view belongs
(`binlog_snapshot_%`), so no lock is taken: the transactions are begun together, and begun again until
their places agree. Where the server writes so much that they never do, one connection reads alone.

MySQL does not say it. There the views are begun under FLUSH TABLES WITH READ LOCK, which holds up
writers for as long as that takes: some milliseconds, and any statement that is running then.
"""

from __future__ import annotations

from headwater.capture.errors import CaptureError, SourceRefused
from headwater.capture.mysql.connection import Address, Connection
from headwater.capture.mysql.flavor import Flavor, Reached

TRIES = 50
Place = tuple[str, int]


class Views:
    """Of one moment: file, position and GTID of it; `readers` beside the first connection."""

    def __init__(self, flavor: Flavor, address: Address, *, first: bool, readers: int) -> None:
        self._connections = [Connection(address) for _ in range(1 + max(0, readers))]
        try:
            for connection in self._connections:
                connection.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                # The log may be slower than the server.
                connection.execute("SET SESSION net_write_timeout = 3600")
            if flavor.product == "MariaDB":
                self.file, self.pos, gtid = self._together()
            else:
                self.file, self.pos, gtid = self._under_lock(address)
            self.gtid: Reached = flavor.parse(gtid)
            if first:
                self._refuse_prepared()
        except BaseException:
            self.close()
            raise

    @property
    def connection(self) -> Connection:
        return self._connections[0]

    @property
    def readers(self) -> list[Connection]:
        return self._connections[1:]

    def close(self) -> None:
        for connection in self._connections:
            connection.close()

    def _together(self) -> tuple[str, int, str]:
        for _ in range(TRIES):
            for connection in self._connections:
                connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            places = {_place(connection) for connection in self._connections}
            if len(places) == 1:
                break
        else:
            for connection in self.readers:
                connection.close()
            del self._connections[1:]
        file, pos = _place(self.connection)
        gtid = self.connection.value("SELECT BINLOG_GTID_POS(%s, %s)", [file, pos])
        if not file or gtid is None:
            raise SourceRefused(
                "the MariaDB server does not say where in its binary log a snapshot stands",
                hint="switch the binary log on: log_bin in the server's configuration, then restart it",
            )
        return file, pos, str(gtid)

    def _under_lock(self, address: Address) -> tuple[str, int, str]:
        lock = Connection(address)
        try:
            lock.execute("FLUSH TABLES WITH READ LOCK")
            for connection in self._connections:
                connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            try:
                rows = lock.execute("SHOW BINARY LOG STATUS")
            except CaptureError:  # before MySQL 8.2
                rows = lock.execute("SHOW MASTER STATUS")
            lock.execute("UNLOCK TABLES")
        finally:
            lock.close()
        if not rows:
            raise SourceRefused(
                "the MySQL server has no binary log",
                hint="log_bin in the server's configuration, then restart it",
            )
        file, pos, _, _, executed = rows[0][:5]
        return str(file), int(pos), str(executed)

    def _refuse_prepared(self) -> None:
        if self.connection.execute("XA RECOVER"):
            raise SourceRefused(
                "an XA transaction is prepared and not decided: its rows are neither in the snapshot "
                "nor in what follows it",
                hint="see XA RECOVER; XA COMMIT or XA ROLLBACK it, then begin again",
            )


def _place(connection: Connection) -> Place:
    status = dict(connection.execute("SHOW STATUS LIKE 'binlog_snapshot_%'"))
    file = status.get("Binlog_snapshot_file") or ""
    return str(file), int(status.get("Binlog_snapshot_position") or 0)
