"""What capture needs of a MariaDB or MySQL server, each failure with the statement that mends it.

`findings` is for `headwater capture check` and changes nothing; `require` stops a capture that could
not be right. Called by `source`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

from headwater.capture import errors
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import CaptureError, Interrupted, SchemaUnknown, SourceRefused
from headwater.capture.mysql import flavor as flavors
from headwater.capture.mysql import log_file, values
from headwater.capture.mysql.address import Address
from headwater.capture.mysql.cascades import cascades
from headwater.capture.mysql.columns import Style
from headwater.capture.mysql.connection import Connection
from headwater.capture.mysql.replication import BinlogStream
from headwater.capture.mysql.schema import Table
from headwater.capture.mysql.selection import captured_now, wanted_tables
from headwater.capture.source import Finding

OLDEST_MARIADB, OLDEST_MYSQL = (10, 5), (8, 0)
RETENTION_S = 86_400
CLOCK_S = 5.0


def findings(
    config: CaptureConfig, address: Address, style: Style, server_id: int
) -> list[Finding]:
    """Everything that was looked at. Where there is no connection, that is the only finding."""
    try:
        connection = Connection(address)
    except (CaptureError, Interrupted) as error:
        remedy = f"CREATE USER {address.user!r}@'%' IDENTIFIED BY '…'" if _denied(error) else None
        return [Finding("connection", False, str(error), remedy)]
    try:
        found = [Finding("connection", True, f"{address.host}:{address.port} as {address.user}")]
        found += server_findings(connection, server_id)
        found += _privileges(connection, address, server_id)
        found += _tables(connection, config, address, style)
        found.append(_clock(connection))
        return found
    finally:
        connection.close()


def require(connection: Connection, address: Address, server_id: int) -> None:
    """Stop, where rows would be wrong or missing without anybody noticing."""
    for finding in server_findings(connection, server_id):
        if not finding.ok and finding.name in _REQUIRED:
            raise SourceRefused(f"{address.host}: {finding.sentence}", hint=finding.remedy)


_REQUIRED = {"version", "log_bin", "binlog_format", "server_id", "gtid_mode"}
_REQUIRED |= {"binlog_row_value_options"}


def server_findings(connection: Connection, server_id: int) -> list[Finding]:
    text = str(connection.value("SELECT VERSION()"))
    found = version_finding(text)
    if not found.ok:
        return [found]
    more = [] if "mariadb" in text.lower() else [*_mysql_settings(connection)]
    return [found, *_settings(connection, server_id), *more]


def version_finding(text: str) -> Finding:
    """By what the server says of itself: 10.11.6-MariaDB, 8.0.36, 8.4.0-cluster."""
    number = re.match(r"(\d+)\.(\d+)", text)
    is_mariadb = "mariadb" in text.lower()
    product, oldest = ("MariaDB", OLDEST_MARIADB) if is_mariadb else ("MySQL", OLDEST_MYSQL)
    if number is None or (int(number[1]), int(number[2])) < oldest:
        sentence = (
            f"{product} {text} is older than {oldest[0]}.{oldest[1]}, which brought "
            "binlog_row_metadata"
        )
        return Finding("version", False, sentence, "upgrade the server")
    return Finding("version", True, text if is_mariadb else f"MySQL {text}")


def _mysql_settings(connection: Connection) -> Iterator[Finding]:
    given = connection.settings("gtid_mode", "binlog_row_value_options")
    for name, wanted, why, remedy in (
        (
            "gtid_mode",
            "ON",
            "a restart finds its place by GTIDs",
            "SET GLOBAL enforce_gtid_consistency = ON, then gtid_mode = OFF_PERMISSIVE, "
            "ON_PERMISSIVE, ON",
        ),
        (
            "binlog_row_value_options",
            "",
            "parts of JSON documents cannot be read",
            "SET GLOBAL binlog_row_value_options = ''",
        ),
    ):
        ok = (given[name] or "") == wanted
        sentence = f"{name} is {given[name] or 'empty'}" + ("" if ok else f": {why}")
        yield Finding(name, ok, sentence, None if ok else remedy)


def _settings(connection: Connection, server_id: int) -> Iterator[Finding]:
    names = ("log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata", "server_id")
    given = connection.settings(*names, "expire_logs_days", "binlog_expire_logs_seconds")
    on = given["log_bin"] == "ON"
    remedy = "log_bin = binlog under [mysqld] of the server's configuration, then restart it"
    yield Finding(
        "log_bin", on, f"the binary log is {'on' if on else 'off'}", None if on else remedy
    )
    for name, wanted, why in (
        ("binlog_format", "ROW", "changes must be logged as rows"),
        ("binlog_row_image", "FULL", "columns that did not change are missing otherwise"),
        (
            "binlog_row_metadata",
            "FULL",
            "rows do not say what their columns are, so the first row after two changes of a table "
            "can end the capture",
        ),
    ):
        ok = given[name] == wanted
        sentence = f"{name} is {given[name]}" + ("" if ok else f": {why}")
        change = f"SET GLOBAL {name} = '{wanted}' (and set it in the server's configuration)"
        yield Finding(name, ok, sentence, None if ok else change)
    own = int(given["server_id"] or 0)
    ok = own not in (0, server_id)
    sentence = f"the server's id is {own}, the capture's {server_id}"
    yield Finding(
        "server_id", ok, sentence, None if ok else "give the capture another server_id = …"
    )
    yield _retention(given)


def _retention(given: dict[str, str | None]) -> Finding:
    seconds = int(given["binlog_expire_logs_seconds"] or 0)
    seconds = seconds or int(float(given["expire_logs_days"] or 0) * 86_400)
    ok = seconds == 0 or seconds >= RETENTION_S
    kept = "until someone purges them" if seconds == 0 else f"for {seconds / 3600:.1f} hours"
    sentence = f"binary logs are kept {kept}"
    if not ok:
        sentence += ": a capture that stands still longer has to take its snapshot again"
    remedy = "SET GLOBAL binlog_expire_logs_seconds = 604800"
    return Finding("retention", ok, sentence, None if ok else remedy)


def _privileges(connection: Connection, address: Address, server_id: int) -> Iterator[Finding]:
    user = str(connection.value("SELECT CURRENT_USER()"))
    name, _, host = user.rpartition("@")
    who = f"'{name}'@'{host}'"
    is_mysql = flavors.of(connection).product == "MySQL"
    monitor = "REPLICATION CLIENT" if is_mysql else "BINLOG MONITOR"
    tries: list[tuple[str, str, Callable[[], object]]] = [
        (monitor, "ask where the binary log is", lambda: connection.execute("SHOW BINARY LOGS")),
        ("REPLICATION SLAVE", "read the binary log", lambda: _dump(connection, address, server_id)),
    ]
    if is_mysql:
        yield _may_lock(connection, who)
        tries.append(
            (
                "XA_RECOVER_ADMIN",
                "ask for prepared XA transactions",
                lambda: connection.execute("XA RECOVER"),
            )
        )
    for privilege, what, act in tries:
        error, remedy = _tried(act), f"GRANT {privilege} ON *.* TO {who}"
        remedy = error.hint or "" if isinstance(error, errors.BinlogUnreadable) else remedy
        sentence = f"may {what}" if error is None else str(error)
        yield Finding(f"privilege {privilege}", not error, sentence, remedy if error else None)


def _may_lock(connection: Connection, who: str) -> Finding:
    """Looked up, not tried: the lock would hold up writers."""
    granted = " ".join(str(row[0]) for row in connection.execute("SHOW GRANTS")).upper()
    ok = any(word in granted for word in ("ALL PRIVILEGES", "RELOAD", "FLUSH_TABLES"))
    sentence = (
        f"may{'' if ok else ' not'} hold writers up for the moment in which the snapshot begins"
    )
    remedy = f"GRANT RELOAD ON *.* TO {who}"
    return Finding("privilege RELOAD", ok, sentence, None if ok else remedy)


def _dump(connection: Connection, address: Address, server_id: int) -> None:
    """Begin to read where the server is now; with a number that throws no running capture out."""
    flavor = flavors.of(connection)
    here = flavor.parse(flavor.now(connection))
    file = str(connection.execute("SHOW BINARY LOGS")[-1][0])
    log_file.made(flavor, address, file, server_id)
    trial = BinlogStream(flavor, address, here, server_id ^ 0x20000000)
    try:
        trial.read(1.0)
    finally:
        trial.close()


def _tables(
    connection: Connection, config: CaptureConfig, address: Address, style: Style
) -> Iterator[Finding]:
    names = wanted_tables(config)
    now = captured_now(connection, config, address.database)
    missing = sorted(set(names) - set(now))
    ok = bool(now) and not missing
    lacking = ", ".join(missing) or "any table"
    sentence = f"{len(now)} tables" if ok else f"not found or not readable: {lacking}"
    grant = f"GRANT SELECT ON `{address.database}`.* TO the user, or correct `tables`"
    yield Finding("tables", ok, sentence, None if ok else grant)
    for table in now.values():
        yield from _table(connection, address, table, style)
    yield from cascades(connection, address, now)


def _table(
    connection: Connection, address: Address, table: Table, style: Style
) -> Iterator[Finding]:
    full = f"`{address.database}`.`{table.name}`"
    name = f"table {table.name}"
    error = _tried(lambda: connection.execute(f"SELECT 1 FROM {full} LIMIT 1"))
    if error is not None:
        yield Finding(name, False, str(error), f"GRANT SELECT ON {full} TO the user")
    if not table.key:
        sentence = "it has no primary key: its records have no key, so nothing can be compacted"
        yield Finding(name, False, sentence, f"ALTER TABLE {full} ADD PRIMARY KEY (…)")
    if table.engine.lower() != "innodb":
        sentence = f"its engine {table.engine} has no consistent snapshot and cannot roll back"
        yield Finding(name, False, sentence, f"ALTER TABLE {full} ENGINE = InnoDB")
    for column in table.columns:
        try:
            values.field(column, style)
        except SchemaUnknown as unknown:
            yield Finding(name, False, str(unknown), unknown.hint)


def _clock(connection: Connection) -> Finding:
    theirs = float(connection.value("SELECT UNIX_TIMESTAMP(NOW(6))"))
    apart = abs(theirs - time.time())
    ok = apart < CLOCK_S
    sentence = f"the server's clock and this one are {apart:.1f} s apart"
    return Finding("clock", ok, sentence, None if ok else "set both by NTP")


def _tried(act: Callable[[], object]) -> CaptureError | Interrupted | None:
    try:
        act()
    except (CaptureError, Interrupted) as error:
        return error
    return None


def _denied(error: Exception) -> bool:
    return isinstance(error, SourceRefused)
