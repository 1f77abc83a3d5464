"""Talking to the server: PyMySQL for greeting, authentication, TLS and queries.

The one file that imports the driver. Called by `replication`, `snapshot`, `preflight`, `source`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pymysql

from headwater.capture.errors import (
    CaptureError,
    Interrupted,
    Misconfigured,
    SourceRefused,
    TableAltered,
)
from headwater.capture.mysql.address import Address

CONNECT_S = 10.0
READ_S = 600.0
# Access denied, unknown database, host blocked, user not allowed from here.
_FOR_PEOPLE = {1044, 1045, 1049, 1129, 1130, 1142, 1143, 1227, 1698, 3118, 4151}
# Too busy, offline, a lost connection, a time-out, a lock or a table that just changed: time mends these.
_FOR_NOW = {1040, 1047, 1053, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1205, 1206, 1213}
_FOR_NOW |= {1037, 1038, 1041, 1135, 1226, 1317, 1412, 1927, 1969, 3024, 3032, 3168, 3169, 4031}
_NOT_THERE = {1054, 1146}
"""A column, a table."""
_COM_QUERY = 3
_PACKET_MAX = 0xFFFFFF
_LENGTH_BYTES = {252: 2, 253: 3, 254: 8}
RECEIVE_BYTES = 1 << 18
_SESSION = """SET time_zone = '+00:00', sql_mode = '', character_set_results = 'utf8mb4',
 sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_auto_is_null = 0
 /*!50708 , max_execution_time = 0 */ /*M!100101 , max_statement_time = 0 */"""
"""What the answers depend on, whatever the server gives a session to begin with: times are those of UTC,
modes change no zero date and no padded text, and no result is cut off, by rows or by time. MariaDB does not
read the first comment, MySQL not the second."""

Packet = tuple[bytes, int]
"""A row of a result: it begins at that place of the bytes."""


class Connection:
    """One session. Errors of the network are `Interrupted`; what people must mend is `SourceRefused`."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._driver = _connect(address)
        self.execute(_SESSION)

    def command(self, number: int, payload: bytes, *, answered: bool = True) -> Any:
        """Send a command of the protocol; the socket, for what follows its answer."""
        try:
            self._driver._execute_command(number, payload)
            if answered:
                self._driver._read_ok_packet()
        except (pymysql.err.Error, OSError) as error:
            raise plain(error) from None
        return self._driver._sock

    def execute(self, statement: str, parameters: Sequence[Any] | None = None) -> list[Any]:
        try:
            with self._driver.cursor() as cursor:
                cursor.execute(statement, parameters)
                return list(cursor.fetchall())
        except (pymysql.err.Error, OSError) as error:
            raise plain(error) from None

    def value(self, statement: str, parameters: Sequence[Any] | None = None) -> Any:
        rows = self.execute(statement, parameters)
        return rows[0][0] if rows else None

    def settings(self, *names: str) -> dict[str, str | None]:
        """Server variables; None where the server does not know one."""
        found = self.execute("SHOW GLOBAL VARIABLES WHERE Variable_name IN %s", [names])
        return {name: dict(found).get(name) for name in names}

    def result(
        self, statement: str, parameters: Sequence[Any] | None = None
    ) -> Iterator[list[Packet]]:
        """The rows of a query as the server sends them, as many at a time as there are.

        Nothing is converted and nothing is held; `text_values` reads a packet. A result that is not
        read to its end makes the connection useless.
        """
        driver = self._driver
        try:
            with driver.cursor() as cursor:
                text = cursor.mogrify(
                    statement if parameters else statement.replace("%%", "%"), parameters
                )
            driver._execute_command(_COM_QUERY, text.encode("utf-8", "surrogateescape"))
            columns = driver._read_packet().read_length_encoded_integer()
            for _ in range(columns + 1):  # their descriptions, and what ends them
                driver._read_packet()
            yield from _packets(driver._rfile)
        except (pymysql.err.Error, OSError) as error:
            raise plain(error) from None

    def close(self) -> None:
        try:
            self._driver.close()
        except (pymysql.err.Error, OSError):
            pass


def _packets(stream: Any) -> Iterator[list[Packet]]:
    rest = b""
    large: list[bytes] = []
    while True:
        data = stream.read1(RECEIVE_BYTES)
        if not data:
            raise Interrupted("the server closed the connection")
        # A long row is waited for whole: joining piece by piece would copy it again and again.
        needed = 4 + int.from_bytes(rest[:3], "little") if len(rest) >= 4 else 0
        if len(rest) + len(data) < needed:
            data += stream.read(needed - len(rest) - len(data))
        data = rest + data
        found: list[Packet] = []
        at, size = 0, len(data)
        while size - at >= 4:
            end = at + 4 + (data[at] | data[at + 1] << 8 | data[at + 2] << 16)
            if end > size:
                break
            if end - at - 4 == _PACKET_MAX or large:
                large.append(data[at + 4 : end])
                if end - at - 4 < _PACKET_MAX:
                    whole = b"".join(large)
                    large = []
                    found.append((whole, 0))
            elif data[at + 4] == 0xFE and end - at < 4 + 9:
                if found:
                    yield found
                return
            elif data[at + 4] == 0xFF:
                number = int.from_bytes(data[at + 5 : at + 7], "little")
                raise plain(pymysql.err.OperationalError(number, data[at + 13 : end].decode()))
            else:
                found.append((data, at + 4))
            at = end
        rest = data[at:]
        if found:
            yield found


def text_values(packet: Packet, converters: Sequence[Callable[[bytes], Any]]) -> list[Any]:
    """The first columns of a row, each by its converter; NULL is the text null."""
    data, at = packet
    values: list[Any] = []
    add = values.append
    for convert in converters:
        size = data[at]
        at += 1
        if size == 251:
            add("null")
            continue
        if size > 251:
            length_bytes = _LENGTH_BYTES[size]
            size = int.from_bytes(data[at : at + length_bytes], "little")
            at += length_bytes
        add(convert(data[at : at + size]))
        at += size
    return values


def _connect(address: Address) -> Any:
    try:
        driver = pymysql.connect(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password.encode(),  # the driver itself would take Latin-1
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=int(CONNECT_S),
            read_timeout=CONNECT_S,  # of the greeting; a network may be cut in the middle of it
            ssl=address.tls_context(),
            ssl_disabled=address.tls_context() is None,
            program_name="headwater",
        )
        driver._read_timeout = READ_S
        return driver
    except RuntimeError as error:  # caching_sha2_password without TLS, which MySQL asks for
        raise Misconfigured(
            f"the login of this user needs more than the driver has: {error}",
            hint="use TLS (?ssl-mode=required), or: pip install cryptography",
        ) from None
    except (pymysql.err.Error, OSError) as error:
        raise plain(error) from None


def plain(error: Exception) -> Exception:
    """The driver's error as one of ours."""
    number = error.args[0] if error.args else 0
    said = str(error.args[1]) if len(error.args) > 1 else str(error)
    if number in _FOR_PEOPLE:
        return SourceRefused(f"the server refused: {said}", hint="run `headwater capture check`")
    answered = isinstance(number, int) and (1000 <= number < 2000 or number >= 3000)
    if not isinstance(error, pymysql.err.Error) or not answered or number in _FOR_NOW:
        return Interrupted(f"the server cannot be reached: {said}")
    kind = TableAltered if number in _NOT_THERE else CaptureError
    return kind(f"the server answered: {said} ({number})", hint="run `headwater capture check`")
