"""What each column's bytes mean: a wire type and what is known about the column → JSON fragments.

Called by `rows`, which compiles a table's fields into one function, and by `snapshot`, which reads the
same columns as the server's text. Both ways must give the same fragment for the same value; a test on
a real server says so for every type.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.capture.envelope import quote
from headwater.capture.errors import BinlogUnreadable, SchemaUnknown
from headwater.capture.mysql import numbers, temporal, texts
from headwater.capture.mysql import table_map as wire
from headwater.capture.mysql.columns import Convert, Description, Field, Style, shown


def field(column: Description, style: Style) -> Field:
    """How to read the column. Raises SchemaUnknown where it could not be read faithfully."""
    make = _vector if column.special == "vector" else _MAKERS.get(column.wire.type)
    if make is None:
        raise SchemaUnknown(
            f"column {column.name!r} has a type that the binary log gives as number "
            f"{column.wire.type}, which is not read here",
            hint=_REMEDIES.get(
                column.wire.type, 'set its table aside: without_tables = ["…"] in the capture'
            ),
        )
    return make(column, style)


_REMEDIES = dict.fromkeys(
    (wire.TIMESTAMP, wire.DATETIME, wire.TIME),
    "rebuild the table in the present format: "
    "SET GLOBAL mysql56_temporal_format=ON; ALTER TABLE … FORCE",
)


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
        shown(column, unsigned_kind if column.unsigned else kind),
        unsigned if column.unsigned else signed,
        convert=convert,
        from_text=int,  # ZEROFILL pads with zeros that JSON does not allow
    )


def _float(column: Description, _style: Style) -> Field:
    if column.wire.type == wire.DOUBLE:
        kind = shown(column, "double")
        return Field(kind, "d", convert=repr, from_text=_double_text, select=_WHOLE)
    return Field(
        shown(column, "float"),
        "f",
        convert=numbers.shortest_float,
        from_text=lambda text: numbers.shortest_float(float(text)),
        select=_WHOLE,
    )


_WHOLE = "{} * 1e0"
"""The text of a FLOAT itself is cut to six digits, that of a DOUBLE(M,D) to D; and 0 + -0 is 0."""


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
        shape = shown(column, "bytes", name, parameters=parameters)
    else:
        shape = shown(column, "string" if style.decimals == "string" else "double")
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
        shown(column, "int32", "io.debezium.time.Date"),
        "3s",
        convert=temporal.Dates(lost).__getitem__,
        from_text=lambda text: temporal.date_from_text(text.decode(), lost),
    )


def _datetime(column: Description, style: Style) -> Field:
    digits, lost = column.wire.first, _lost(column, style)
    name = "io.debezium.time.Timestamp" if digits <= 3 else "io.debezium.time.MicroTimestamp"
    return Field(
        shown(column, "int64", name),
        f"{5 + temporal.fraction_bytes(digits)}s",
        convert=temporal.datetimes(digits, lost),
        from_text=lambda text: temporal.datetime_from_text(text.decode(), digits, lost),
    )


def _timestamp(column: Description, style: Style) -> Field:
    digits, lost = column.wire.first, _lost(column, style)
    return Field(
        shown(column, "string", "io.debezium.time.ZonedTimestamp"),
        f"{4 + temporal.fraction_bytes(digits)}s",
        convert=temporal.timestamps(digits, lost),
        from_text=lambda text: temporal.timestamp_from_text(text.decode(), lost),
    )


def _time(column: Description, _style: Style) -> Field:
    digits = column.wire.first
    return Field(
        shown(column, "int64", "io.debezium.time.MicroTime"),
        f"{3 + temporal.fraction_bytes(digits)}s",
        convert=temporal.times(digits),
        from_text=lambda text: temporal.time_from_text(text.decode()),
    )


def _year(column: Description, _style: Style) -> Field:
    return Field(
        shown(column, "int32", "io.debezium.time.Year"),
        "B",
        convert=lambda year: year + 1900 if year else 0,
        from_text=int,
    )


def _bit(column: Description, _style: Style) -> Field:
    count = column.wire.first
    if count == 1:
        shape = shown(column, "boolean")
    else:
        shape = shown(column, "bytes", "io.debezium.data.Bits", parameters={"length": str(count)})
    convert = numbers.bits(count)
    return Field(shape, f"{(count + 7) // 8}s", convert=convert, from_text=convert)


def _enum(column: Description, _style: Style) -> Field:
    known = ['""', *map(quote, column.members)]  # 0 is the empty text of a value that was refused
    name = "io.debezium.data.Enum"
    allowed = ",".join(column.members)
    return Field(
        shown(column, "string", name, parameters={"allowed": allowed}),
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
        shown(column, "string", name, parameters={"allowed": ",".join(members)}),
        f"{column.wire.first}s",
        convert=convert,
        from_text=lambda text: quote(text.decode()),
    )


def _vector(column: Description, _style: Style) -> Field:
    """32-bit floats one after the other, in the log and in the server's text.

    MySQL has a type for it there; MariaDB logs VARBINARY of that many bytes.
    """
    items = {"type": "float", "optional": False}
    length_bytes = column.wire.first
    if column.wire.type == wire.VARCHAR:
        length_bytes = texts.length_bytes(column.wire)
    return Field(
        shown(column, "array", "io.debezium.data.FloatVector", items=items),
        length_bytes=length_bytes,
        convert=numbers.vector,
        from_text=numbers.vector,
    )


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
    wire.STRING: texts.string,
    wire.VARCHAR: texts.string,
    wire.VAR_STRING: texts.string,
    **dict.fromkeys((wire.BLOB, wire.TINY_BLOB, wire.MEDIUM_BLOB, wire.LONG_BLOB), texts.blob),
    wire.BLOB_COMPRESSED: texts.compressed,
    wire.VARCHAR_COMPRESSED: texts.compressed,
    wire.GEOMETRY: texts.geometry,
    wire.JSON: texts.document,
    wire.VECTOR: _vector,
}
