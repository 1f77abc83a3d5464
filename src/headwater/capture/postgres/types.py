"""PostgreSQL's types as Debezium shows them: text from the server in, JSON fragment out; pure.

Called by `relations` for each column. The connections ask for ISO dates, UTC, ISO intervals, hex bytea
and shortest exact floats (`connection.SESSION`), so a type has one text form.

| type | JSON | Debezium |
|---|---|---|
| smallint integer bigint oid, real, double | number (NaN, ±Infinity as strings) | same |
| numeric, money | string, every digit | `decimal.handling.mode=string` |
| boolean | true, false | same |
| date | days since 1970 | io.debezium.time.Date |
| time | µs | io.debezium.time.MicroTime |
| timestamp | µs since 1970 | io.debezium.time.MicroTimestamp |
| timestamptz | "2026-11-15T13:00:00.5Z" | io.debezium.time.ZonedTimestamp |
| timetz | "13:00:00+02:00": keeps its zone | Debezium turns it into UTC |
| interval | "P1Y2M3DT4H5M6S": nothing lost | `interval.handling.mode=string` |
| bytea | base64 | same |
| json jsonb xml uuid enum | string, logical names as Debezium | same |
| arrays | arrays, nested where they have more dimensions | same |
| ranges, bit, network, geometric, text search, composite, domains of them | their text | partly structures |
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from headwater.capture.envelope import NULL, quote

Converter = Callable[[bytes], str]

# What the server cannot express as a number; the values of PostgreSQL's own JDBC driver.
DATE_INFINITY, DATE_MINUS_INFINITY = 2_147_483_647, -2_147_483_648
INFINITY_US, MINUS_INFINITY_US = 9_223_372_036_825_200_000, -9_223_372_036_832_400_000
DAY_US = 86_400_000_000

_DATE = re.compile(r"(\d{4,})-(\d\d)-(\d\d)(?:[ ](\d\d:\d\d:\d\d(?:\.\d+)?))?(\+00)?( BC)?")
_ZONE = re.compile(r"([+-]\d\d)(?::?(\d\d))?(?::?(\d\d))?$")


class TypeInfo(NamedTuple):
    """How a column of a type is shown."""

    convert: Converter
    connect: tuple[tuple[str, Any], ...]


def number(raw: bytes) -> str:
    return raw.decode("ascii")


def boolean(raw: bytes) -> str:
    return "true" if raw == b"t" else "false"


def floating(raw: bytes) -> str:
    text = raw.decode("ascii")
    return quote(text) if text[-1] in "Ny" else text  # NaN, Infinity, -Infinity


def text(raw: bytes) -> str:
    return quote(raw.decode())


def quoted(raw: bytes) -> str:
    """Text that has nothing to escape."""
    return f'"{raw.decode("ascii")}"'


def binary(raw: bytes) -> str:
    return f'"{b64encode(bytes.fromhex(raw[2:].decode("ascii"))).decode("ascii")}"'


@lru_cache(4096)
def _days(year: int, month: int, day: int) -> int:
    """Days since 1970 in the proleptic Gregorian calendar, for any year (Howard Hinnant's method)."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _clock_us(clock: str) -> int:
    whole, _, fraction = clock.partition(".")
    hours, minutes, seconds = whole.split(":")
    micros = int(fraction.ljust(6, "0")) if fraction else 0
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds)) * 1_000_000 + micros


def _parts(raw: bytes) -> tuple[int, int, int, str]:
    match = _DATE.fullmatch(raw.decode("ascii"))
    if match is None:
        raise ValueError(f"{raw!r} is no date of DateStyle ISO")
    year = int(match[1])
    return (1 - year if match[6] else year), int(match[2]), int(match[3]), match[4] or "00:00:00"


@lru_cache(8192)
def _day_of(raw: bytes) -> int:
    """The day of a date in the years 1 to 9999, which are nearly all there are."""
    return _days(int(raw[:4]), int(raw[5:7]), int(raw[8:10]))


def _common(raw: bytes) -> bool:
    return raw[4:5] == b"-" and raw[-1:] != b"C"  # four digits, and not BC


def date(raw: bytes) -> str:
    if raw[-1:] == b"y":
        return str(DATE_MINUS_INFINITY if raw[:1] == b"-" else DATE_INFINITY)
    if _common(raw):
        return str(_day_of(raw))
    year, month, day, _ = _parts(raw)
    return str(_days(year, month, day))


def clock(raw: bytes) -> str:
    return str(_clock_us(raw.decode("ascii")))


def timestamp(raw: bytes) -> str:
    if raw[-1:] == b"y":
        return str(MINUS_INFINITY_US if raw[:1] == b"-" else INFINITY_US)
    if _common(raw):
        return str(_day_of(raw[:10]) * DAY_US + _clock_us(raw[11:].decode("ascii")))
    year, month, day, clock = _parts(raw)
    return str(_days(year, month, day) * DAY_US + _clock_us(clock))


def timestamptz(raw: bytes) -> str:
    if raw[-1:] == b"y":
        return quoted(raw)
    if _common(raw) and raw[-3:] == b"+00":
        common = raw.decode("ascii")
        return f'"{common[:10]}T{common[11:-3]}Z"'
    year, month, day, clock = _parts(raw)
    shown = f"{year:04d}" if year >= 0 else f"-{-year:04d}"
    return f'"{shown}-{month:02d}-{day:02d}T{clock}Z"'


def timetz(raw: bytes) -> str:
    shown = raw.decode("ascii")
    match = _ZONE.search(shown)
    if match is None:
        raise ValueError(f"{raw!r} has no zone")
    zone = f"{match[1]}:{match[2] or '00'}" + (f":{match[3]}" if match[3] else "")
    return f'"{shown[: match.start()]}{"Z" if zone == "+00:00" else zone}"'


def array(element: Converter, separator: str = ",") -> Converter:
    """Arrays of a type; `{1,NULL,"a b"}`, `{{1,2},{3,4}}`, `[0:1]={1,2}`."""

    def convert(raw: bytes) -> str:
        source = raw.decode()
        if source.startswith("["):
            source = source[source.index("=") + 1 :]
        out, end = _array(source, 0, element, separator)
        if end != len(source):
            raise ValueError(f"{source[end:]!r} follows an array")
        return out

    return convert


def _array(source: str, at: int, element: Converter, separator: str) -> tuple[str, int]:
    items: list[str] = []
    at += 1  # the brace
    while source[at] != "}":
        if source[at] == separator:
            at += 1
        if source[at] == "{":
            item, at = _array(source, at, element, separator)
        elif source[at] == '"':
            word, at = _quoted_word(source, at + 1)
            item = element(word.encode())
        else:
            end = at
            while source[end] not in (separator, "}"):
                end += 1
            bare = source[at:end]
            item, at = NULL if bare == "NULL" else element(bare.encode()), end
        items.append(item)
    return f"[{','.join(items)}]", at + 1


def _quoted_word(source: str, at: int) -> tuple[str, int]:
    characters: list[str] = []
    while source[at] != '"':
        if source[at] == "\\":
            at += 1
        characters.append(source[at])
        at += 1
    return "".join(characters), at + 1


def _plain(kind: str) -> tuple[tuple[str, Any], ...]:
    return (("type", kind),)


def _named(kind: str, name: str) -> tuple[tuple[str, Any], ...]:
    return (("type", kind), ("name", name), ("version", 1))


STRING = TypeInfo(text, _plain("string"))

# By the oid of pg_type.dat: these numbers never change.
BUILT_IN: dict[int, TypeInfo] = {
    16: TypeInfo(boolean, _plain("boolean")),
    17: TypeInfo(binary, _plain("bytes")),
    20: TypeInfo(number, _plain("int64")),
    21: TypeInfo(number, _plain("int16")),
    23: TypeInfo(number, _plain("int32")),
    26: TypeInfo(number, _plain("int64")),
    700: TypeInfo(floating, _plain("float")),
    701: TypeInfo(floating, _plain("double")),
    1700: TypeInfo(quoted, _plain("string")),
    1082: TypeInfo(date, _named("int32", "io.debezium.time.Date")),
    1083: TypeInfo(clock, _named("int64", "io.debezium.time.MicroTime")),
    1114: TypeInfo(timestamp, _named("int64", "io.debezium.time.MicroTimestamp")),
    1184: TypeInfo(timestamptz, _named("string", "io.debezium.time.ZonedTimestamp")),
    1266: TypeInfo(timetz, _named("string", "io.debezium.time.ZonedTime")),
    1186: TypeInfo(quoted, _named("string", "io.debezium.time.Interval")),
    114: TypeInfo(text, _named("string", "io.debezium.data.Json")),
    3802: TypeInfo(text, _named("string", "io.debezium.data.Json")),
    142: TypeInfo(text, _named("string", "io.debezium.data.Xml")),
    2950: TypeInfo(quoted, _named("string", "io.debezium.data.Uuid")),
}


def enum(labels: Sequence[str]) -> TypeInfo:
    parameters = {"allowed": ",".join(labels)}
    return TypeInfo(text, (*_named("string", "io.debezium.data.Enum"), ("parameters", parameters)))


def array_of(element: TypeInfo, separator: str = ",") -> TypeInfo:
    items = {**dict(element.connect), "optional": True}
    return TypeInfo(array(element.convert, separator), (("type", "array"), ("items", items)))
