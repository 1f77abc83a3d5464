"""Avro's primitive types, from what JSON has; pure. Each raises one of `REFUSED`."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

from headwater.schemas.values.exact import base64_bytes, floating
from headwater.schemas.values.header import Json

_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")
"""As Spark writes them into JSON."""


REFUSED = (TypeError, ValueError, ArithmeticError, AttributeError)


def null(value: Json) -> None:
    if value is not None:
        raise TypeError


def boolean(value: Json) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def string(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError
    if not value.isascii():
        value.encode()  # half a surrogate pair is no text
    return value


def single(value: Json) -> float:
    return double(value, is_single=True)


def double(value: Json, *, is_single: bool = False) -> float:
    if type(value) in (int, float, Decimal):
        return floating(value, is_single=is_single)
    if value in _NO_NUMBERS:
        return float(value)
    raise TypeError


def integer(value: Json) -> int:
    if type(value) is not int or not -0x8000_0000 <= value < 0x8000_0000:
        raise TypeError
    return value


def long(value: Json) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise TypeError
    return value


def octets(value: Json) -> bytes:
    if not isinstance(value, str):
        raise TypeError
    return base64_bytes(value)


PRIMITIVES: dict[str, Callable[[Json], Json]] = {
    "null": null, "boolean": boolean, "int": integer, "long": long, "float": single, "double": double,
    "bytes": octets, "string": string,
}  # fmt: skip


def primitive(value: Json, name: str, kind: Json) -> Json:
    """`name`: of the type `kind`, which has no others in it."""
    if name in PRIMITIVES:
        return PRIMITIVES[name](value)
    if name == "fixed":
        return sized(octets(value), name, kind)
    if name == "enum" and value in kind["symbols"]:
        return value
    raise TypeError


def sized(data: bytes, name: str, kind: Json) -> bytes:
    if name == "fixed" and len(data) != kind["size"]:
        raise ValueError
    return data
