"""Whether the server's binary log is still the one that was read before; called by `source`.

A server that was reset gives other transactions the names of the old ones, in files of the old names, and
may even give them the same places. What it cannot give them is their files' time: the event at the head of
each file says when the file was made.
"""

from __future__ import annotations

import socket
import struct
import time
import uuid
import zlib

from headwater.capture.change import Position
from headwater.capture.errors import Gap, Interrupted
from headwater.capture.mysql import ddl, events
from headwater.capture.mysql.address import Address
from headwater.capture.mysql.connection import Connection
from headwater.capture.mysql.flavor import RESET, Flavor, Reached, register
from headwater.capture.mysql.replication import BinlogStream

_COM_BINLOG_DUMP = 0x12
_FIRST_EVENT = 4
ANSWER_S = 20.0
SCAN_EVENTS_MAX = 20_000


class _Head:
    """Has the server send a file from its beginning."""

    def __init__(self, product: str, file: str) -> None:
        self.product = product
        self._file = file

    def dump(self, connection: Connection, after: Reached, server_id: int) -> socket.socket:
        own = uuid.UUID(int=server_id << 96 | zlib.crc32(b"headwater head"))
        connection.execute("SET @slave_uuid = %s, @replica_uuid = %s", [str(own), str(own)])
        connection.execute("SET @mariadb_slave_capability = 4")
        register(connection, server_id)
        asked = struct.pack("<IHI", _FIRST_EVENT, 0, server_id) + self._file.encode()
        dumped: socket.socket = connection.command(_COM_BINLOG_DUMP, asked, answered=False)
        return dumped


def made(flavor: Flavor, address: Address, file: str, server_id: int) -> int:
    """When that file was made, in seconds."""
    # Another number than the capture's own: the server ends the elder of two equal replicas.
    nothing, number = flavor.parse(""), server_id ^ 0x10000000
    stream = BinlogStream(_Head(flavor.product, file), address, nothing, number)
    try:
        deadline = time.monotonic() + ANSWER_S
        while time.monotonic() < deadline:
            for frame in stream.read(1.0):
                if frame[3] == events.FORMAT_DESCRIPTION:
                    return frame[4]
    finally:
        stream.close()
    raise Interrupted(f"the {flavor.product} server does not send its binary log {file}")


def check_same(
    flavor: Flavor, connection: Connection, address: Address, position: Position, server_id: int
) -> None:
    """Raise Gap if the file of the position is another one now."""
    file, then = position.get("file"), position.get("made")
    if not file or position.get("server") != int(connection.value("SELECT @@server_id")):
        return
    sizes = {str(row[0]): int(row[1]) for row in connection.execute("SHOW BINARY LOGS")}
    if file in sizes:
        now = made(flavor, address, file, server_id) if then else then
        if now == then and sizes[file] >= position["pos"]:
            return
    elif sizes and number(file) < min(map(number, sizes)):
        return  # purged: whether anything after the position is missing, the GTIDs say
    raise Gap(
        f"the server's binary log is not the one that was read before: {file} is "
        f"{'another file now' if file in sizes else 'not there, and was not purged'}",
        hint=RESET,
    )


def changes_later(database: Connection, name: str, file: str, pos: int) -> bool:
    """Whether a later statement in the binary log may have changed the table as well."""
    files = [str(row[0]) for row in database.execute("SHOW BINARY LOGS")]
    for later in files[files.index(file) :] if file in files else []:
        begin = pos if later == file else 4
        found = database.execute(
            f"SHOW BINLOG EVENTS IN %s FROM {begin} LIMIT {SCAN_EVENTS_MAX}", [later]
        )
        if len(found) == SCAN_EVENTS_MAX or any(
            row[2].startswith("Query") and int(row[1]) != pos and ddl.mentions(row[5], name)
            for row in found
        ):
            return True
    return file not in files


def number(file: str) -> int:
    """By which the files follow each other."""
    tail = file.rpartition(".")[2]
    return int(tail) if tail.isdecimal() else 0
