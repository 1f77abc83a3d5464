"""MariaDB and MySQL: where the two differ in what they call a position and how they are asked.

Chosen by `source` from what the server says of itself; everything else is the same code for both.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Sequence
from typing import Any, Protocol

from headwater.capture.change import Position
from headwater.capture.errors import Gap, TableAltered
from headwater.capture.mysql import table_map
from headwater.capture.mysql.connection import Connection
from headwater.capture.mysql.course import Course, SetCourse
from headwater.capture.mysql.gtid import GtidPosition, GtidSet

_COM_BINLOG_DUMP, _COM_REGISTER_SLAVE, _COM_BINLOG_DUMP_GTID = 0x12, 0x15, 0x1E
_THROUGH_GTID = 4
RESET = "the server was reset or restored: take the snapshot again (--resnapshot)"


class Reached(Protocol):
    """How far something is, in GTIDs."""

    def covers(self, other: Any) -> bool: ...


class Flavor(Protocol):
    """One kind of server."""

    product: str
    connector: str
    dialect: table_map.Dialect
    logs_updates: str
    """The setting by which a replica logs what it gets."""

    def parse(self, gtid: str) -> Reached: ...
    def waits_for(self, connection: Connection, gtid: str, timeout_s: int) -> bool:
        """Whether the server has these transactions, within that time."""
        ...

    def course(self, position: Position, *, jumps_allowed: bool) -> Course | SetCourse: ...
    def now(self, connection: Connection) -> str:
        """What the server has logged until now."""
        ...

    def dump(self, connection: Connection, after: Reached, server_id: int) -> Any:
        """Have the server send what follows; the socket that it will come from."""
        ...

    def check_continuity(self, connection: Connection, position: Position) -> None:
        """Raise Gap unless this server's log is the one that the position is of."""
        ...


def of(connection: Connection) -> Flavor:
    version = str(connection.value("SELECT VERSION()"))
    return MariaDB() if "mariadb" in version.lower() else MySQL()


def register(connection: Connection, server_id: int) -> None:
    # Host, user and password are empty: they are only for people who list the replicas.
    register = struct.pack("<IBBBHII", server_id, 0, 0, 0, 0, 0, 0)
    connection.command(_COM_REGISTER_SLAVE, register)


class MariaDB:
    product = "MariaDB"
    connector = "mariadb"
    dialect = table_map.MARIADB
    logs_updates = "log_slave_updates"

    def waits_for(self, connection: Connection, gtid: str, timeout_s: int) -> bool:
        return connection.value("SELECT MASTER_GTID_WAIT(%s, %s)", [gtid, timeout_s]) == 0

    def parse(self, gtid: str) -> GtidPosition:
        return GtidPosition.parse(gtid)

    def course(self, position: Position, *, jumps_allowed: bool) -> Course:
        return Course(position, jumps_allowed=jumps_allowed)

    def now(self, connection: Connection) -> str:
        return str(connection.value("SELECT @@gtid_binlog_pos"))

    def dump(self, connection: Connection, after: Reached, server_id: int) -> Any:
        connection.execute("SET @mariadb_slave_capability = 4")
        connection.execute("SET @slave_connect_state = %s", [str(after)])
        connection.execute("SET @slave_gtid_strict_mode = 0")
        connection.execute("SET @slave_gtid_ignore_duplicates = 0")
        register(connection, server_id)
        dump = struct.pack("<IHI", 4, 0, server_id)
        return connection.command(_COM_BINLOG_DUMP, dump, answered=False)

    def check_continuity(self, connection: Connection, position: Position) -> None:
        """A server that was reset has the same names for other transactions; their places tell."""
        if position.get("server") != int(connection.value("SELECT @@server_id")):
            return  # another server took over: its files are others, its GTIDs are checked by itself
        files = [row[0] for row in connection.execute("SHOW BINARY LOGS")]
        file, pos = position["file"], position["pos"]
        if file not in files and files and file < files[0]:
            return  # purged: the server itself looks whether anything after the position is missing
        there = None
        if file in files:
            there = connection.value("SELECT BINLOG_GTID_POS(%s, %s)", [file, pos])
        if there is None or GtidPosition.parse(there) != GtidPosition.parse(position["gtid"]):
            raise Gap(
                f"the server's binary log is not the one that was read before: at {file} {pos} "
                f"it has {there or 'nothing'}, and it had {position['gtid'] or 'none'}",
                hint=RESET,
            )


class MySQL:
    product = "MySQL"
    connector = "mysql"
    dialect = table_map.MYSQL
    logs_updates = "log_replica_updates"

    def waits_for(self, connection: Connection, gtid: str, timeout_s: int) -> bool:
        wait = "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, %s)"
        return connection.value(wait, [gtid, timeout_s]) == 0

    def parse(self, gtid: str) -> GtidSet:
        return GtidSet.parse(gtid)

    def course(self, position: Position, *, jumps_allowed: bool) -> SetCourse:
        return SetCourse(position)

    def now(self, connection: Connection) -> str:
        return str(GtidSet.parse(str(connection.value("SELECT @@GLOBAL.gtid_executed"))))

    def dump(self, connection: Connection, after: Reached, server_id: int) -> Any:
        assert isinstance(after, GtidSet)
        # By its UUID the server ends an elder dump of the same capture.
        own = uuid.UUID(int=server_id << 96 | zlib.crc32(b"headwater"))
        connection.execute("SET @slave_uuid = %s, @replica_uuid = %s", [str(own), str(own)])
        register(connection, server_id)
        return connection.command(
            _COM_BINLOG_DUMP_GTID, dump_request(server_id, after), answered=False
        )

    def check_continuity(self, connection: Connection, position: Position) -> None:
        had = GtidSet.parse(position["gtid"])
        if not GtidSet.parse(self.now(connection)).covers(had):
            raise Gap(
                "the server does not know all transactions that were read from it before",
                hint=RESET,
            )
        purged = GtidSet.parse(str(connection.value("SELECT @@GLOBAL.gtid_purged")))
        since = GtidSet.parse(position["from"]) if "from" in position else had
        if not since.covers(purged):
            raise Gap(
                "the server has purged binary logs that were not read yet",
                hint="take the snapshot again (--resnapshot), and keep binary logs longer: "
                "SET GLOBAL binlog_expire_logs_seconds = 604800",
            )


def dump_request(server_id: int, after: GtidSet) -> bytes:
    """COM_BINLOG_DUMP_GTID without its first byte: all that is not in the set."""
    known = after.encoded()
    head = struct.pack("<HII", _THROUGH_GTID, server_id, 0)
    return head + struct.pack("<QI", 4, len(known)) + known


def source_schema(connector: str) -> dict[str, Any]:
    """The source block in Kafka Connect's terms."""
    name = f"io.debezium.connector.{connector}.Source"
    return {"type": "struct", "fields": _SOURCE_FIELDS, "optional": False, "name": name}


_SOURCE_FIELDS = [
    {"type": kind, "optional": optional, "field": name}
    for name, kind, optional in (
        ("version", "string", False),
        ("connector", "string", False),
        ("name", "string", False),
        ("ts_ms", "int64", False),
        ("snapshot", "string", True),
        ("db", "string", False),
        ("sequence", "string", True),
        ("ts_us", "int64", True),
        ("ts_ns", "int64", True),
        ("table", "string", True),
        ("server_id", "int64", False),
        ("gtid", "string", True),
        ("file", "string", False),
        ("pos", "int64", False),
        ("row", "int32", False),
        ("thread", "int64", True),
        ("query", "string", True),
    )
]


def unique_key(
    connection: Connection, database: str, table: str, columns: Sequence[str], row_end: str = ""
) -> tuple[int, ...]:
    """What both log as the key of a table that has no primary one, as places of its columns: the first
    unique index of whole columns that are never null. Empty: there is none, or the table has just gone.
    `row_end` is part of each where a table keeps its old rows, and of no key that readers have."""
    quoted = ".".join("`" + part.replace("`", "``") + "`" for part in (database, table))
    try:
        rows = connection.execute(f"SHOW INDEX FROM {quoted}")
    except TableAltered:
        return ()
    indexes: dict[str, list[int]] = {}
    for _, non_unique, index, _, column, _, _, prefix, _, nullable, *_ in rows:
        if column == row_end:
            continue
        whole = not non_unique and prefix is None and nullable != "YES" and column in columns
        indexes.setdefault(index, []).append(columns.index(column) if whole else -1)
    return next((tuple(parts) for parts in indexes.values() if -1 not in parts), ())
