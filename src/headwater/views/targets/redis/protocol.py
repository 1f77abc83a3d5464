"""Commands for Redis, made column by column: what a client library does value by value, in compiled code.

Called while rows are staged. A command of Redis's protocol (RESP) is `*COUNT\\r\\n` and then, for each word,
`$BYTES\\r\\nWORD\\r\\n`; a column of commands is the join of such columns, and all of them together are one
buffer that goes to the server as it is. Answers are switched off meanwhile (CLIENT REPLY OFF): whoever
calls this looks afterwards at what has arrived.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headwater.views.targets.contract import Unavailable

_END = "\r\n"


def word(text: str) -> str:
    """One word that is the same in all commands."""
    return f"${len(text.encode())}{_END}{text}{_END}"


def words(column: pa.Array) -> pa.Array:
    """A column of words; null stays null."""
    sizes = pc.binary_length(column).cast(pa.string())
    return _joined("$", sizes, _END, column, _END)


def hashes(keys: pa.Array, columns: Mapping[str, pa.Array]) -> pa.Array:
    """HSET commands: at each key a field for every column that is not null."""
    counts: Any = pa.scalar(2, pa.int64())
    fields = []
    for name, column in columns.items():
        counts = pc.add(counts, pc.multiply(column.is_valid().cast(pa.int64()), 2))
        fields.append(_joined(word(name), words(column)).fill_null(""))
    return _joined("*", counts.cast(pa.string()), _END, word("HSET"), words(keys), *fields)


def strings(keys: pa.Array, values: pa.Array) -> pa.Array:
    """SET commands."""
    return _joined(f"*3{_END}{word('SET')}", words(keys), words(values))


def pushes(key: str, entries: pa.Array) -> bytes:
    """One RPUSH command for all entries."""
    head = f"*{len(entries) + 2}{_END}{word('RPUSH')}{word(key)}"
    return head.encode() + bytes_of(words(entries))


def bytes_of(commands: pa.Array) -> bytes:
    """All of them, one after the other."""
    return b"".join(commands.cast(pa.binary()).to_pylist())


def _joined(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def send(client: Any, chunks: Sequence[bytes]) -> None:
    """Commands without answers; afterwards the server has done them, or refused them."""
    pool = client.connection_pool
    connection = pool.get_connection()
    try:
        connection.send_packed_command([b"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF\r\n"])
        connection.send_packed_command(list(chunks))
        connection.send_packed_command([b"*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$2\r\nON\r\n"])
        if connection.read_response() not in ("OK", b"OK"):
            raise Unavailable("Redis does not answer as it should")
    finally:
        connection.disconnect()
        pool.release(connection)
