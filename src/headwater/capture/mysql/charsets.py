"""MariaDB's character sets as Python reads them; pure, called by `values` and `snapshot`.

MariaDB's `latin1` is Windows-1252 whose five empty places are the C1 controls; the tests compare every
byte of every 8-bit set below with what the server says. A set that is not here is refused by the
preflight check and by the decoder: guessing would corrupt text.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable

from headwater.capture.mysql.errors import SchemaUnknown

BINARY = "binary"

_PYTHON = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ascii": "ascii",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "cp1251": "cp1251",
    "cp932": "cp932",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "big5": "big5hkscs",
    "euckr": "cp949",
    "ujis": "euc_jp",
    "sjis": "shift_jis",
}

UTF8 = frozenset(name for name, codec in _PYTHON.items() if codec == "utf-8")
KNOWN = frozenset(_PYTHON) | {"latin1", BINARY}

_LATIN1 = "".join(
    bytes([byte]).decode("cp1252") if byte not in (0x81, 0x8D, 0x8F, 0x90, 0x9D) else chr(byte)
    for byte in range(256)
)


def decoder(charset: str) -> Callable[[bytes], str]:
    """What turns a column's bytes into text; raises UnicodeDecodeError for bytes that are none."""
    if charset == "latin1":
        table = _LATIN1
        return lambda data: codecs.charmap_decode(data, "strict", table)[0]
    name = _PYTHON.get(charset)
    if name is None:
        raise SchemaUnknown(
            f"text in the character set {charset!r} cannot be read here",
            hint="convert the column, for example to utf8mb4, or leave its table out of `tables`",
        )
    return lambda data: data.decode(name)
