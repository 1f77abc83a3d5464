"""What each column's bytes mean: a wire type and what is known about the column → JSON fragments.

Called by `rows`, which compiles a table's fields into one function, and by `snapshot`, which reads the
same columns as the server's text. Both ways must give the same fragment for the same value; a test on
a real server says so for every type.
"""

from __future__ import annotations

import base64
import ipaddress
import uuid
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headwater.capture.envelope import Column, quote
from headwater.capture.mysql import charsets, numbers, temporal
from headwater.capture.mysql import table_map as wire
from headwater.capture.mysql.errors import BinlogUnreadable, SchemaUnknown
from headwater.capture.mysql.table_map import Wire

Fragment = Any  # text, or a number that formats as JSON does
Convert = Callable[[Any], Fragment]

ZERO_DATES = ("text", "debezium")
DECIMALS = ("string", "precise", "double")


@dataclass(frozen=True, slots=True)
class Style:
    """How values are shown where there is a choice."""

    decimals: str = "string"
    zero_dates: str = "text"


@dataclass(frozen=True, slots=True)
class Description:
    """A column at one moment; from a table map, or from the information schema."""

    name: str
    wire: Wire
    nullable: bool
    unsigned: bool = False
    charset: str | None = None
    members: tuple[str, ...] = ()
    special: str = ""
    """uuid, inet4, inet6: what the log has as plain bytes."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column ready to be read. Fixed size: `code` for struct; else `length_bytes` before the value."""

    column: Column
    code: str = ""
    length_bytes: int = 0
    convert: Convert | None = None
    """None: the number itself is the fragment."""
    from_text: Convert = bytes.decode
    select: str = "{}"
    """The expression whose text `from_text` understands; {} is the column's quoted name."""


def field(column: Description, style: Style) -> Field:
    """How to read the column. Raises SchemaUnknown where it could not be read faithfully."""
    make = _MAKERS.get(column.wire.type)
    if make is None:
        raise SchemaUnknown(
            f"column {column.name!r} has a type that the binary log gives as number "
            f"{column.wire.type}, which is not read here",
            hint=_REMEDIES.get(column.wire.type, "leave its table out of `tables`"),
        )
    return make(column, style)


_REMEDIES = dict.fromkeys(
    (wire.TIMESTAMP, wire.DATETIME, wire.TIME),
    "rebuild the table in the present format: "
    "SET GLOBAL mysql56_temporal_format=ON; ALTER TABLE … FORCE",
)


def _column(column: Description, kind: str, name: str | None = None, **more: Any) -> Column:
    connect: list[tuple[str, Any]] = [("type", kind)]
    if name is not None:
        connect += [("name", name), ("version", 1)]
    connect += more.items()
    return Column(column.name, tuple(connect), column.nullable)


_INTEGERS = {  # wire type → struct codes signed and unsigned, Connect types
    wire.TINY: ("b", "B", "int16", "int16"),
    wire.SHORT: ("h", "H", "int16", "int32"),
    wire.INT24: ("3s", "3s", "int32", "int32"),
    wire.LONG: ("i", "I", "int32", "int64"),
    wire.LONGLONG: ("q", "Q", "int64", "int64"),
}


def _integer(column: Description, _style: Style) -> Field:
    signed, unsigned, kind, unsigned_kind = _INTEGERS[column.wire.type]
    convert: Convert | None = None
    if column.wire.type == wire.INT24:
        is_signed = not column.unsigned
        convert = lambda raw: int.from_bytes(raw, "little", signed=is_signed)  # noqa: E731
    return Field(
        _column(column, unsigned_kind if column.unsigned else kind),
        unsigned if column.unsigned else signed,
        convert=convert,
        from_text=int,  # ZEROFILL pads with zeros that JSON does not allow
    )


def _float(column: Description, _style: Style) -> Field:
    if column.wire.type == wire.DOUBLE:
        return Field(_column(column, "double"), "d", convert=repr, from_text=_double_text)
    return Field(
        _column(column, "float"),
        "f",
        convert=numbers.shortest_float,
        from_text=lambda text: numbers.shortest_float(float(text)),
        select="{} + 0e0",  # the text of a FLOAT itself is cut to six digits
    )


def _double_text(text: bytes) -> str:
    return repr(float(text))


def _decimal(column: Description, style: Style) -> Field:
    precision, scale = column.wire.first, column.wire.second
    read = numbers.decimals(precision, scale)
    code = f"{numbers.decimal_bytes(precision, scale)}s"
    show: Callable[[str], str] = {
        "string": lambda text: f'"{text}"',
        "precise": numbers.precise,
        "double": lambda text: repr(float(text)),
    }[style.decimals]
    if style.decimals == "precise":
        parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
        name = "org.apache.kafka.connect.data.Decimal"
        shape = _column(column, "bytes", name, parameters=parameters)
    else:
        shape = _column(column, "string" if style.decimals == "string" else "double")
    return Field(
        shape,
        code,
        convert=lambda raw: show(read(raw)),
        # ZEROFILL again.
        from_text=lambda text: show(_unpadded(text.decode())),
    )


def _unpadded(text: str) -> str:
    sign = "-" if text.startswith("-") else ""
    whole, point, fraction = text.lstrip("-").partition(".")
    return f"{sign}{whole.lstrip('0') or '0'}{point}{fraction}"


def _lost(column: Description, style: Style) -> temporal.Lost:
    if style.zero_dates == "text":
        return None
    return "null" if column.nullable else "0"


def _date(column: Description, style: Style) -> Field:
    lost = _lost(column, style)
    return Field(
        _column(column, "int32", "io.debezium.time.Date"),
        "3s",
        convert=temporal.Dates(lost).__getitem__,
        from_text=lambda text: temporal.date_from_text(text.decode(), lost),
    )


def _datetime(column: Description, style: Style) -> Field:
    digits, lost = column.wire.first, _lost(column, style)
    name = "io.debezium.time.Timestamp" if digits <= 3 else "io.debezium.time.MicroTimestamp"
    return Field(
        _column(column, "int64", name),
        f"{5 + temporal.fraction_bytes(digits)}s",
        convert=temporal.datetimes(digits, lost),
        from_text=lambda text: temporal.datetime_from_text(text.decode(), digits, lost),
    )


def _timestamp(column: Description, style: Style) -> Field:
    digits, lost = column.wire.first, _lost(column, style)
    return Field(
        _column(column, "string", "io.debezium.time.ZonedTimestamp"),
        f"{4 + temporal.fraction_bytes(digits)}s",
        convert=temporal.timestamps(digits, lost),
        from_text=lambda text: temporal.timestamp_from_text(text.decode(), lost),
    )


def _time(column: Description, _style: Style) -> Field:
    digits = column.wire.first
    return Field(
        _column(column, "int64", "io.debezium.time.MicroTime"),
        f"{3 + temporal.fraction_bytes(digits)}s",
        convert=temporal.times(digits),
        from_text=lambda text: temporal.time_from_text(text.decode()),
    )


def _year(column: Description, _style: Style) -> Field:
    return Field(
        _column(column, "int32", "io.debezium.time.Year"),
        "B",
        convert=lambda year: year + 1900 if year else 0,
        from_text=int,
    )


def _bit(column: Description, _style: Style) -> Field:
    count = column.wire.first
    if count == 1:
        shape = _column(column, "boolean")
    else:
        shape = _column(column, "bytes", "io.debezium.data.Bits", parameters={"length": str(count)})
    convert = numbers.bits(count)
    return Field(shape, f"{(count + 7) // 8}s", convert=convert, from_text=convert)


def _enum(column: Description, _style: Style) -> Field:
    known = ['""', *map(quote, column.members)]  # 0 is the empty text of a value that was refused
    name = "io.debezium.data.Enum"
    allowed = ",".join(column.members)
    return Field(
        _column(column, "string", name, parameters={"allowed": allowed}),
        "B" if column.wire.first == 1 else "H",
        convert=lambda number: _member(known, number),
        from_text=lambda text: quote(text.decode()),
    )


def _member(known: list[str], number: int) -> str:
    if number >= len(known):
        raise BinlogUnreadable(
            f"an ENUM value has number {number}, but only {len(known) - 1} are known"
        )
    return known[number]


def _set(column: Description, _style: Style) -> Field:
    members = column.members

    def convert(raw: bytes) -> str:
        chosen = int.from_bytes(raw, "little")
        if chosen >> len(members):
            raise BinlogUnreadable(f"a SET value has bits beyond its {len(members)} members")
        return quote(",".join(text for n, text in enumerate(members) if chosen >> n & 1))

    name = "io.debezium.data.EnumSet"
    return Field(
        _column(column, "string", name, parameters={"allowed": ",".join(members)}),
        f"{column.wire.first}s",
        convert=convert,
        from_text=lambda text: quote(text.decode()),
    )


def _base64(raw: bytes) -> str:
    return f'"{base64.b64encode(raw).decode()}"'


def _string(column: Description, style: Style) -> Field:
    """CHAR, VARCHAR, BINARY, VARBINARY and MariaDB's types that are stored as BINARY."""
    length_bytes = 1 if column.wire.first < 256 else 2
    if column.special:
        return _special(column, length_bytes)
    if column.charset == charsets.BINARY and column.wire.type == wire.STRING:
        size = column.wire.first  # the log leaves trailing zero bytes away
        return Field(
            _column(column, "bytes"),
            length_bytes=length_bytes,
            convert=lambda raw: _base64(raw.ljust(size, b"\0")),
            from_text=_base64,
        )
    return _text(column, length_bytes)


def _text(
    column: Description, length_bytes: int, unpack: Callable[[bytes], bytes] | None = None
) -> Field:
    if column.charset is None:
        raise SchemaUnknown(f"the character set of column {column.name!r} is not known")
    if column.charset == charsets.BINARY:
        return Field(
            _column(column, "bytes"),
            length_bytes=length_bytes,
            convert=_base64 if unpack is None else lambda raw: _base64(unpack(raw)),
            from_text=_base64,
        )
    if charsets.is_utf8(column.charset) and unpack is None:
        return Field(
            _column(column, "string"),
            length_bytes=length_bytes,
            convert=_utf8,
            from_text=_utf8,
        )
    decode = charsets.decoder(column.charset)

    def convert(raw: bytes) -> str:
        try:
            return quote(decode(raw if unpack is None else unpack(raw)))
        except UnicodeDecodeError as error:
            raise BinlogUnreadable(
                f"column {column.name!r} holds bytes that are no {column.charset} text: {error}"
            ) from None

    return Field(
        _column(column, "string"),
        length_bytes=length_bytes,
        convert=convert,
        from_text=_utf8,
    )


def _utf8(raw: bytes) -> str:
    return quote(str(raw, "utf-8"))


def _blob(column: Description, _style: Style) -> Field:
    return _text(column, column.wire.first)


def _compressed(column: Description, _style: Style) -> Field:
    """Columns declared COMPRESSED: a byte (0: as it is; else method << 4 | length bytes), then zlib."""
    if column.wire.type == wire.BLOB_COMPRESSED:
        length_bytes = column.wire.first
    else:
        length_bytes = 1 if column.wire.first < 256 else 2
    return _text(column, length_bytes, _uncompressed)


def _uncompressed(raw: bytes) -> bytes:
    if not raw:
        return b""
    if raw[0] == 0:
        return raw[1:]
    if raw[0] >> 4 != 8:
        raise BinlogUnreadable(f"a compressed column uses method {raw[0] >> 4}, which is not known")
    try:
        # A bit of the first byte says that zlib's own header was left away.
        return zlib.decompress(raw[1 + (raw[0] & 7) :], -15 if raw[0] & 8 else 15)
    except zlib.error as error:
        raise BinlogUnreadable(f"a compressed column is damaged: {error}") from None


def _geometry(column: Description, _style: Style) -> Field:
    """Four bytes of SRID, then well-known binary."""
    shape = Column(
        column.name,
        (
            ("type", "struct"),
            (
                "fields",
                [
                    {"type": "bytes", "optional": False, "field": "wkb"},
                    {"type": "int32", "optional": True, "field": "srid"},
                ],
            ),
            ("name", "io.debezium.data.geometry.Geometry"),
            ("version", 1),
        ),
        column.nullable,
    )

    def convert(raw: bytes) -> str:
        srid = int.from_bytes(raw[:4], "little")
        return f'{{"wkb":{_base64(raw[4:])},"srid":{srid or "null"}}}'

    return Field(shape, length_bytes=column.wire.first, convert=convert, from_text=convert)


def _special(column: Description, length_bytes: int) -> Field:
    size = column.wire.first
    show = {"uuid": _uuid, "inet4": _inet4, "inet6": _inet6}[column.special]
    return Field(
        _column(column, "string", "io.debezium.data.Uuid" if column.special == "uuid" else None),
        length_bytes=length_bytes,
        convert=lambda raw: show(raw.ljust(size, b"\0")),
        from_text=lambda text: quote(text.decode()),
    )


def _uuid(raw: bytes) -> str:
    return f'"{uuid.UUID(bytes=raw)}"'


def _inet4(raw: bytes) -> str:
    return f'"{ipaddress.IPv4Address(raw)}"'


def _inet6(raw: bytes) -> str:
    """As the server writes it: addresses that hold one of version 4 end with that."""
    if raw[:10] == bytes(10) and (
        raw[10:12] == b"\xff\xff" or (raw[10:12] == b"\0\0" != raw[12:14])
    ):
        prefix = "::ffff:" if raw[10] else "::"
        return f'"{prefix}{ipaddress.IPv4Address(raw[12:])}"'
    return f'"{ipaddress.IPv6Address(raw)}"'


_MAKERS: dict[int, Callable[[Description, Style], Field]] = {
    **dict.fromkeys(_INTEGERS, _integer),
    wire.FLOAT: _float,
    wire.DOUBLE: _float,
    wire.NEWDECIMAL: _decimal,
    wire.DATE: _date,
    wire.NEWDATE: _date,
    wire.DATETIME2: _datetime,
    wire.TIMESTAMP2: _timestamp,
    wire.TIME2: _time,
    wire.YEAR: _year,
    wire.BIT: _bit,
    wire.ENUM: _enum,
    wire.SET: _set,
    wire.STRING: _string,
    wire.VARCHAR: _string,
    wire.VAR_STRING: _string,
    **dict.fromkeys((wire.BLOB, wire.TINY_BLOB, wire.MEDIUM_BLOB, wire.LONG_BLOB), _blob),
    wire.BLOB_COMPRESSED: _compressed,
    wire.VARCHAR_COMPRESSED: _compressed,
    wire.GEOMETRY: _geometry,
}
