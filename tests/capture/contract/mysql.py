"""MySQL and MariaDB under the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tests.capture.contract import subject
from tests.capture.contract.columns import WithColumns
from tests.capture.contract.subject import Row, Type
from tests.capture.mysql.server import MariaDB
from tests.capture.postgres.running import eventually

_TEXT = "JSON_QUOTE(CONVERT(c USING utf8mb4))"
_NUMBER = "CAST(c AS CHAR)"
_BYTES = "JSON_QUOTE(REPLACE(TO_BASE64(c), '\n', ''))"
_DAYS = "CAST(DATEDIFF(c, '1970-01-01') AS CHAR)"
_MOMENT_US = "CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', c) AS CHAR)"
_ZONED = "JSON_QUOTE(DATE_FORMAT(c, '%Y-%m-%dT%H:%i:%s.%fZ'))"
_CLOCK_US = """CAST(IF(c < 0, -1, 1) * (ABS(HOUR(c)) * 3600000000 + MINUTE(c) * 60000000 + SECOND(c)
 * 1000000 + MICROSECOND(c)) AS CHAR)"""

TYPES: tuple[Type, ...] = (
    ("TINYINT", ("-128", "127"), _NUMBER),
    ("TINYINT UNSIGNED", ("0", "255"), _NUMBER),
    ("SMALLINT", ("-32768", "32767"), _NUMBER),
    ("SMALLINT UNSIGNED", ("0", "65535"), _NUMBER),
    ("MEDIUMINT", ("-8388608", "8388607"), _NUMBER),
    ("MEDIUMINT UNSIGNED", ("0", "16777215"), _NUMBER),
    ("INT", ("-2147483648", "2147483647"), _NUMBER),
    ("INT UNSIGNED", ("0", "4294967295"), _NUMBER),
    ("BIGINT", ("-9223372036854775808", "9223372036854775807"), _NUMBER),
    ("BIGINT UNSIGNED", ("0", "18446744073709551615"), _NUMBER),
    ("DECIMAL(65,30)", ("-99999999999999999999999999999999999.9", "1e-30"), _TEXT),
    ("DECIMAL(10,0)", ("-9999999999", "0"), _TEXT),
    ("FLOAT", ("-3.5", "1.5e38"), _NUMBER),
    ("DOUBLE", ("-1.7976931348623157e308", "2.2250738585072014e-308", "0.1"), _NUMBER),
    ("YEAR", ("1901", "2155"), _NUMBER),
    ("DATE", ("'1000-01-01'", "'9999-12-31'"), _DAYS),
    ("DATETIME(6)", ("'1000-01-01'", "'9999-12-31 23:59:59.499999'"), _MOMENT_US),
    ("DATETIME(6)", ("'2026-11-15 01:02:03.004'",), _MOMENT_US),
    ("TIMESTAMP(6)", ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07.25'"), _ZONED),
    ("TIME(6)", ("'-838:59:59'", "'838:59:59'", "'00:00:00.000001'"), _CLOCK_US),
    ("CHAR(20)", ("''", "REPEAT('ü', 20)"), _TEXT),
    ("VARCHAR(300)", ("''", "REPEAT('🙂', 300)"), _TEXT),
    ("BINARY(16)", ("x'00'", "REPEAT(x'ff', 16)"), _BYTES),
    ("VARBINARY(300)", ("x''", "REPEAT(x'00', 300)"), _BYTES),
    ("TINYTEXT", ("''", "REPEAT('a', 255)"), _TEXT),
    ("LONGTEXT CHARACTER SET latin1", ("''", "REPEAT('é', 70000)"), _TEXT),
    ("TEXT CHARACTER SET utf16", ("''", "REPEAT('🙂', 10)"), _TEXT),
    ("MEDIUMBLOB", ("x''", "REPEAT(x'ff', 70000)"), _BYTES),
    ("ENUM('a','b''c','ü')", ("'a'", "'ü'"), _TEXT),
    ("SET('a','b','c','d','e','f','g','h','i')", ("''", "'a,i'"), _TEXT),
)
_ALIKE = ""
"""Snapshot and stream are compared; a SELECT shows it in another form."""
_SPATIAL: tuple[Type, ...] = (
    ("BIT(64)", ("b'0'", "b'1'"), _ALIKE),
    ("BIT(1)", ("b'0'", "b'1'"), _ALIKE),
    ("BOOLEAN", ("false", "true"), _ALIKE),
    ("FLOAT", ("-0e0", "16777217"), _ALIKE),  # a SELECT shows six digits
    ("DOUBLE(20,5)", ("-0e0", "-0.00001"), _ALIKE),  # and of this five behind the point
    ("POINT", ("ST_GeomFromText('POINT(0 0)')", "ST_GeomFromText('POINT(-1.5 1e10)')"), _ALIKE),
    ("GEOMETRY", ("ST_GeomFromText('LINESTRING(0 0, 1 1)')",), _ALIKE),
    ("MULTIPOINT", ("ST_GeomFromText('MULTIPOINT(0 0, 1 1)')",), _ALIKE),
    ("POLYGON", ("ST_GeomFromText('POLYGON((0 0, 1 1, 1 0, 0 0))')",), _ALIKE),
)
_DOCUMENT = """'{"a": [1, -2.5, 1e-5, 1e20, true, "ü"], "b": {}}'"""
MYSQL_8_TYPES: tuple[Type, ...] = (
    *TYPES,
    *_SPATIAL,
    ("JSON", ("'null'", _DOCUMENT), _ALIKE),  # without the spaces that a SELECT puts between
)
MYSQL_9_TYPES: tuple[Type, ...] = (
    *MYSQL_8_TYPES,
    (
        "VECTOR(3)",
        ("STRING_TO_VECTOR('[0,0,0]')", "STRING_TO_VECTOR('[1.5,-2e-10,3.4e38]')"),
        _ALIKE,
    ),
)
MARIADB_TYPES: tuple[Type, ...] = (
    *TYPES,
    *_SPATIAL,
    ("JSON", ("'null'", _DOCUMENT), _TEXT),
    ("UUID", ("'00000000-0000-0000-0000-000000000000'", "UUID()"), "JSON_QUOTE(CAST(c AS CHAR))"),
    ("INET6", ("'::'", "'2001:db8::ff00:42:8329'"), "JSON_QUOTE(CAST(c AS CHAR))"),
    ("INET4", ("'0.0.0.0'", "'255.255.255.255'"), "JSON_QUOTE(CAST(c AS CHAR))"),
    ("TEXT COMPRESSED", ("''", "REPEAT('ü', 5000)"), _TEXT),
)
MARIADB_11_8_TYPES: tuple[Type, ...] = (
    *MARIADB_TYPES,
    (
        "VECTOR(3)",
        ("VEC_FromText('[0,0,0]')", "VEC_FromText('[1.5,-0.0000000002,1000000000000000000]')"),
        _ALIKE,
    ),
    ("VECTOR(100)", ("VEC_FromText(CONCAT('[0.1', REPEAT(',-2.5', 99), ']'))",), "VEC_ToText(c)"),
)


_OWN_SESSION = """SET time_zone = '+00:00', sql_mode = DEFAULT, sql_select_limit = 18446744073709551615,
 sql_big_selects = 1 /*!50708 , max_execution_time = 0 */ /*M!100101 , max_statement_time = 0 */"""
_ODD_SESSIONS = {
    "sql_select_limit": "3", "max_join_size": "5", "time_zone": "'+05:30'", "sql_auto_is_null": "1",
    "group_concat_max_len": "4", "sql_safe_updates": "1",
    "max_execution_time": "1", "max_statement_time": "0.001",
}  # fmt: skip


class MySQLKind(WithColumns):
    server: MariaDB
    can = frozenset(
        (
            subject.KEYS_CHANGE, subject.KEYS_REDEFINED, subject.TRANSACTIONS, subject.COLUMNS,
            subject.TRUNCATE, subject.RENAME, subject.ROWS_FOLLOW, subject.RESET, subject.PURGE,
            subject.SILENCE, subject.READ_AGAIN, subject.NO_KEY, subject.PARTITIONS, subject.SESSIONS,
        )
    )  # fmt: skip
    ddl: ClassVar[Mapping[str, Sequence[str]]] = {
        "added": ["ALTER TABLE t ADD COLUMN more VARCHAR(20) DEFAULT 'dé'"],
        "added first": ["ALTER TABLE t ADD COLUMN more INT UNSIGNED DEFAULT 4294967295 FIRST"],
        "dropped": ["ALTER TABLE t DROP COLUMN s"],
        "renamed": ["ALTER TABLE t CHANGE n m INT"],
        "retyped": ["ALTER TABLE t MODIFY n VARCHAR(20)"],
        "moved": ["ALTER TABLE t MODIFY s TEXT FIRST"],
        "between": ["ALTER TABLE t DROP COLUMN n", "ALTER TABLE t ADD COLUMN n TINYINT DEFAULT 7"],
        "rewritten": ["ALTER TABLE t MODIFY id BIGINT", "ALTER TABLE t FORCE"],
        "enum": [
            "ALTER TABLE t ADD COLUMN e ENUM('a','b') DEFAULT 'b'",
            "UPDATE t SET e = 'a'",
            "ALTER TABLE t MODIFY e ENUM('z','b','a','ü') DEFAULT 'ü'",
        ],
        "set": [
            "ALTER TABLE t ADD COLUMN e SET('a','b') DEFAULT 'b'",
            "UPDATE t SET e = 'a,b'",
            "ALTER TABLE t MODIFY e SET('z','b','a') DEFAULT 'z'",
        ],
        "generated": [
            "ALTER TABLE t ADD COLUMN g INT AS (n * 2) STORED, ADD COLUMN v INT AS (n + 1) VIRTUAL"
        ],
    }

    def make_database(self) -> None:
        self.odd: list[str] = []
        self.server.execute(f"CREATE DATABASE {self.name} CHARACTER SET utf8mb4")

    def remove_database(self) -> None:
        for name in self.odd:
            self.server.execute(f"SET GLOBAL {name} = DEFAULT")
        self.server.execute(f"DROP DATABASE IF EXISTS {self.name}")

    def url(self, port: int | None = None) -> str:
        return f"{self.server.scheme}://root@127.0.0.1:{port or self.server.port}/{self.name}"

    @property
    def port(self) -> int:
        return self.server.port

    def kill(self) -> None:
        self.server.kill()

    def start(self) -> None:
        self.server.start()

    def execute(self, *statements: str) -> list[tuple[Any, ...]]:
        return self.server.execute(_OWN_SESSION, *statements, database=self.name)

    def begin_sessions_oddly(self) -> None:
        for name, value in _ODD_SESSIONS.items():
            if self.execute(f"SHOW GLOBAL VARIABLES LIKE '{name}'"):
                self.server.execute(f"SET GLOBAL {name} = {value}")
                self.odd.append(name)

    def create(self, table: str) -> None:
        self.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, n INT, s LONGTEXT)")

    def insert(self, table: str, first: int, last: int, text: str = "x") -> None:
        if first == last:
            self.execute(f"INSERT INTO {table} (id, n, s) VALUES ({first}, {first}, '{text}')")
            return
        self.execute(
            f"SET SESSION {self.depth} = 10000000",
            f"INSERT INTO {table} (id, n, s) WITH RECURSIVE i (i) AS (SELECT {first} UNION ALL "
            f"SELECT i + 1 FROM i WHERE i < {last}) SELECT i, i, '{text}' FROM i",
        )

    @property
    def depth(self) -> str:
        mysql = self.server.scheme == "mysql"
        return "cte_max_recursion_depth" if mysql else "max_recursive_iterations"

    def set(self, table: str, identity: int, n: int) -> None:
        self.execute(f"UPDATE {table} SET n = {n} WHERE id = {identity}")

    def delete(self, table: str, identity: int) -> None:
        self.execute(f"DELETE FROM {table} WHERE id = {identity}")

    def select(self, table: str) -> list[Row]:
        columns = [str(row[0]) for row in self.execute(f"SHOW COLUMNS FROM {table}")]
        found = self.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY id")
        return [dict(zip(columns, row, strict=True)) for row in found]

    def redefine(self, table: str, *columns: str) -> None:
        has_key = self.execute(f"SHOW INDEX FROM {table} WHERE Key_name = 'PRIMARY'")
        parts = ["DROP PRIMARY KEY"] if has_key else []
        parts += [f"ADD PRIMARY KEY ({', '.join(columns)})"] if columns else []
        self.execute(f"ALTER TABLE {table} {', '.join(parts)}")

    def retype_as_text(self, table: str, column: str) -> None:
        self.execute(f"ALTER TABLE {table} MODIFY {column} VARCHAR(20)")

    def read_again(self, table: str, after: list[str] | None) -> None:
        assert self.position is not None
        self.position["incremental"] = {"tables": [table], "after": after}

    def lose(self) -> None:
        for statement in ("RESET BINARY LOGS AND GTIDS", "RESET MASTER"):
            try:
                self.execute(statement)
                return
            except Exception as error:
                if statement == "RESET MASTER":
                    raise error

    def purge(self) -> None:
        self.insert("mark", 1_000_000, 1_000_000)
        self.execute("FLUSH BINARY LOGS")
        self.insert("mark", 1_000_001, 1_000_001)
        last = str(self.execute("SHOW BINARY LOGS")[-1][0])

        def gone() -> bool:
            """What somebody still reads stays: a capture that was cut off, until the server notices."""
            self.execute(f"PURGE BINARY LOGS TO '{last}'")
            return len(self.execute("SHOW BINARY LOGS")) == 1

        eventually("the binary log is purged", gone)


class MySQL8(MySQLKind):
    types = MYSQL_8_TYPES


class MySQL9(MySQLKind):
    types = MYSQL_9_TYPES


class MariaDB10(MySQLKind):
    can = MySQLKind.can | {subject.REPLACE, subject.VERSIONS}
    types = MARIADB_TYPES


class MariaDB118(MariaDB10):
    types = MARIADB_11_8_TYPES
