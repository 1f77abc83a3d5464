"""Connections that see the database at one and the same place of the binary log; called by `source`.

MariaDB keeps its binary log in step with InnoDB's views and says to which place a view belongs
(`binlog_snapshot_%`), so no lock is taken: the transactions are begun together, and begun again until
their places agree. Where the server writes so much that they never do, one connection reads alone.

MySQL does not say it. There the views are begun under FLUSH TABLES WITH READ LOCK, which holds up
writers for as long as that takes: some milliseconds, and any statement that is running then.
"""

from __future__ import annotations

import contextlib
import math

from headwater.capture.change import Position
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import CaptureError, Interrupted, SourceRefused
from headwater.capture.mysql.address import Address
from headwater.capture.mysql.connection import Connection
from headwater.capture.mysql.flavor import Flavor, Reached
from headwater.capture.mysql.log_file import number
from headwater.capture.source import Finding
from headwater.secrets import expand

TRIES = 50
CATCH_UP_S = 10
_SECONDS_BEHIND = 32
"""The same place in what both servers say of a replica, under four names of the column."""
Place = tuple[str, int]


class Views:
    """Of one moment: file, position and GTID of it; `readers` beside the first connection."""

    def __init__(self, flavor: Flavor, address: Address, *, first: bool, readers: int) -> None:
        self.address = address
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
            self.server = int(self.connection.value("SELECT @@server_id"))
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


def shows(flavor: Flavor, connection: Connection, position: Position) -> bool:
    """Whether what is read from now on has all transactions of the position.

    A transaction is in the binary log, and so in the stream, before a SELECT sees it: a moment, or for as
    long as a replica takes to confirm it (rpl_semi_sync_…_wait_point = AFTER_SYNC). MySQL counts it as
    executed once it is seen; of MariaDB a view says where in the binary log it stands.
    """
    if flavor.product != "MariaDB":
        now = flavor.parse(flavor.now(connection))
        return now.covers(flavor.parse(position["gtid"]))
    connection.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    file, pos = _place(connection)
    connection.execute("COMMIT")
    return (number(file), pos) >= (number(position["file"]), position["pos"])


def replica_of(config: CaptureConfig) -> Replica | None:
    url = config.option("snapshot_from", "")
    return Replica(Address.parse(expand(url))) if url else None


class Replica:
    """From which the first snapshot is read, so that its primary is spared (`snapshot_from`).

    What it shows is a place among the primary's transactions, named by GTIDs; the stream goes on from
    there, at the primary. A snapshot that goes on must not read rows older than it has streamed: the
    replica is waited for. What it has and the primary has not would never be followed by a change.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self._connection: Connection | None = None

    def database(self) -> Connection:
        if self._connection is None:
            self._connection = Connection(self.address)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def findings(self, flavor: Flavor) -> list[Finding]:
        """What a snapshot from it needs."""
        try:
            self._require_log(flavor)
            behind = self.lag_s()
        except (CaptureError, Interrupted) as error:
            return [Finding("snapshot_from", False, str(error), error.hint)]
        if behind is None:
            return [
                Finding(
                    "snapshot_from",
                    False,
                    f"{self.address.host} is no replica: it follows nobody",
                    "name a replica of the server in `from`, or leave `snapshot_from` out",
                )
            ]
        said = "stands still" if math.isinf(behind) else f"is {behind:.0f} s behind"
        return [Finding("snapshot_from", True, f"{self.address.host} {said}")]

    def ready(self, flavor: Flavor, position: Position | None) -> None:
        """Raise unless it can be read from, behind the position if there is one."""
        self._require_log(flavor)
        if position is None or "gtid" not in position:
            return
        if not flavor.waits_for(self.database(), position["gtid"], CATCH_UP_S):
            raise Interrupted(f"the replica {self.address.host} has not yet what the log has")

    def check_history(self, flavor: Flavor, primary: Connection, seen: Reached) -> None:
        """Raise where it shows what its primary does not have."""
        if not flavor.parse(flavor.now(primary)).covers(seen):
            raise SourceRefused(
                f"the replica {self.address.host} has transactions that {primary.address.host} has not",
                hint="`snapshot_from` must follow the server in `from`, and be written by it alone",
            )

    def lag_s(self) -> float | None:
        """Infinite where it does not follow at present; None where it follows nobody."""
        try:
            rows = self.database().execute("SHOW REPLICA STATUS")
        except SourceRefused:  # MySQL before 8.0.22
            rows = self.database().execute("SHOW SLAVE STATUS")
        if not rows:
            return None
        behind = rows[0][_SECONDS_BEHIND]
        return math.inf if behind is None else float(behind)

    def _require_log(self, flavor: Flavor) -> None:
        known = self.database().settings("log_bin", "log_slave_updates", "log_replica_updates")
        logs = known["log_slave_updates"] or known["log_replica_updates"]
        if known["log_bin"] != "ON" or logs != "ON":
            raise SourceRefused(
                f"the replica {self.address.host} does not log what it gets from its primary, so it "
                "cannot say which transactions its rows are of",
                hint=f"log_bin and {flavor.logs_updates} = ON in its configuration, then restart it",
            )


def opened(
    flavor: Flavor,
    primary: Connection,
    replica: Replica | None,
    position: Position | None,
    readers: int,
) -> Views:
    """For a snapshot from the beginning (no GTID in the position) or for the rest of one."""
    first = position is None or "gtid" not in position
    if replica is None:
        return Views(flavor, primary.address, first=first, readers=readers)
    replica.ready(flavor, position)
    with contextlib.ExitStack() as unless_refused:
        view = Views(flavor, replica.address, first=first, readers=readers)
        unless_refused.callback(view.close)
        replica.check_history(flavor, primary, view.gtid)
        unless_refused.pop_all()
    return view
