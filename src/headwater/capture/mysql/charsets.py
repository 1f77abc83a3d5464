"""MariaDB's character sets as Python reads them; called by `values` and `snapshot`.

MariaDB's `latin1` is Windows-1252 whose five empty places are the C1 controls; the tests compare every
byte of every 8-bit set below with what the server says. A set that is not here is refused by the
preflight check and by the decoder: guessing would corrupt text.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

from headwater.capture.errors import SchemaUnknown
from headwater.capture.mysql.connection import Connection

BINARY = "binary"

_PYTHON = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "koi8r": "koi8-r",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp932": "cp932",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "big5": "big5hkscs",
    "euckr": "cp949",
    "sjis": "shift_jis",
}


def _table(codec: str, other: dict[int, str]) -> str:
    """What each byte means: as the codec has it, but for those that MariaDB reads otherwise."""
    return "".join(
        other[byte] if byte in other else bytes([byte]).decode(codec) for byte in range(256)
    )


_TABLES = {
    # Bytes that a set has no character for, which a column may hold: the server shows them as ?.
    "ascii": _table("latin1", dict.fromkeys(range(0x80, 0x100), "?")),
    "cp1251": _table("cp1251", {0x98: "?"}),
    "latin1": _table("cp1252", {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}),
    "cp866": _table("cp866", {0xFC: "ⁿ", 0xFD: "²"}),
    "koi8u": _table("koi8-u", {0x95: "•"}),
}

KNOWN = frozenset(_PYTHON) | frozenset(_TABLES) | {BINARY}


def is_utf8(charset: str) -> bool:
    return _PYTHON.get(charset) == "utf-8"


def decoder(charset: str) -> Callable[[bytes], str]:
    """What turns a column's bytes into text; raises UnicodeDecodeError for bytes that are none."""
    table = _TABLES.get(charset)
    if table is not None:
        return lambda data: codecs.charmap_decode(data, "strict", table)[0]
    name = _PYTHON.get(charset)
    if name is None:
        raise SchemaUnknown(
            f"text in the character set {charset!r} cannot be read here",
            hint="convert the column, for example to utf8mb4, or leave its table out of `tables`",
        )
    if charset == "sjis":  # MariaDB reads its wide backslash as the plain one
        return lambda data: data.decode(name).replace("＼", "\\")
    return lambda data: data.decode(name)


def by_collation(connection: Connection) -> dict[int, str]:
    """Collation number → character set."""
    try:
        rows = connection.execute(
            "SELECT ID, CHARACTER_SET_NAME "
            "FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY"
        )
    except Exception:  # before MariaDB 10.10 that table had no numbers
        asked = "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS"
        rows = connection.execute(asked)
    return {int(number): str(name) for number, name in rows if number is not None and name}
