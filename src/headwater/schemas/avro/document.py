"""An Avro schema that was sent: parsed, with what it refers to. `kinds` calls `parse`.

Two look at it: `types` resolves names for the rules of compatibility, and fastavro says whether it takes
it, so that what is registered here can be read by whoever uses that library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import cached_property

from headwater.schemas import bounds
from headwater.schemas.avro import compatibility, form
from headwater.schemas.avro.types import MISSING, Field, Names, Type, read
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.model import AVRO, Difference, Imported

_Json = str | list[object] | dict[str, object]
_BITS = {"int": 31, "long": 63}


class AvroSchema:
    kind = AVRO

    def __init__(self, root: Type) -> None:
        self.root = root

    @cached_property
    def canonical(self) -> str:
        return form.text_of(self.root)

    @cached_property
    def normalized(self) -> str:
        return form.text_of(self.root, is_normalized=True)

    @property
    def serialized(self) -> str:
        return self.canonical

    @cached_property
    def whole(self) -> str:
        return form.text_of(self.root, is_whole=True)

    def unreadable(self, written: AvroSchema) -> list[Difference]:
        return compatibility.differences(self.root, written.root)


def parse(text: str, imported: Sequence[Imported], *, is_new: bool) -> AvroSchema:
    """`is_new`: it is to be registered, so its defaults are checked and fastavro is asked. InvalidSchema."""
    names = Names()
    values = [_value(each.text) for each in imported]
    for each in values:
        read(each, names)
    for known in names.known.values():
        known.is_imported = True
    value = _value(text, is_new=is_new)
    root = read(value, names)
    if is_new:
        _check_defaults(each for each in names.known.values() if not each.is_imported)
        _ask_fastavro(values, value)
    return AvroSchema(root)


def _value(text: str, *, is_new: bool = False) -> _Json:
    if text.strip().isidentifier():
        return text.strip()  # Avro's Java library takes the bare name of a primitive type
    value = bounds.json_of(text, is_new=is_new)
    if not isinstance(value, str | list | dict):
        raise InvalidSchema(f"Invalid schema: No type: {value!r}"[:200])
    return value


def _ask_fastavro(imported: Sequence[_Json], value: _Json) -> None:
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema

    named: dict[str, dict[str, object]] = {}
    try:
        for each in imported:
            parse_schema(each, named, _force=True)
        parse_schema(value, named, _force=True)
    except (SchemaParseException, UnknownType) as error:
        raise InvalidSchema(f"Invalid schema: {error}"[:1000]) from None
    except (TypeError, ValueError, KeyError, AttributeError, RecursionError) as error:
        raise InvalidSchema(f"Invalid schema: {type(error).__name__}: {error}"[:1000]) from None


def _check_defaults(types: Iterable[Type]) -> None:
    """Raises InvalidSchema for the first that is no value of its field's type, as Avro writes defaults.

    As Avro's Java library does it (`validateDefaults`, which Confluent's registry asks for where it
    normalises): bytes are letters up to U+00FF, logical types what they are made of, and of a union any
    branch (Avro 1.12). Who reads by an impossible one fails, long after it was registered.
    """
    values = _Values()
    for kind in types:
        for field in kind.fields:
            if field.default is not MISSING and not values.are_of(field.type, field.default, ()):
                shown = json.dumps(field.default)[:100]
                raise InvalidSchema(
                    f"Invalid schema: Invalid default for field {field.name}: {shown} not a "
                    f"{field.type.name or field.type.kind}"
                )


class _Values:
    """Of the fields of one schema that a value does not have."""

    def __init__(self) -> None:
        self._left = bounds.DEFAULT_PARTS_MAX

    def are_of(self, kind: Type, value: object, inside: tuple[int, ...]) -> bool:
        self._left -= 1
        if self._left < 0:
            raise InvalidSchema(
                f"Invalid schema: the defaults of its fields are more than "
                f"{bounds.DEFAULT_PARTS_MAX:,} values, all together"
            )
        if kind.kind == "union":
            return any(self.are_of(each, value, inside) for each in kind.branches)
        if kind.kind == "record":
            return isinstance(value, dict) and all(
                self._is_field(each, value, inside) for each in kind.fields
            )
        if kind.kind in ("array", "map") and kind.item is not None:
            if not isinstance(value, list if kind.kind == "array" else dict):
                return False
            items = value if isinstance(value, list) else value.values()
            return all(self.are_of(kind.item, each, inside) for each in items)
        return _is_scalar(kind, value)

    def _is_field(self, field: Field, value: dict[str, object], inside: tuple[int, ...]) -> bool:
        if field.name in value:
            return self.are_of(field.type, value[field.name], inside)
        # A default of its own is used, which may not lead to itself.
        if field.default is MISSING or id(field) in inside:
            return False
        return self.are_of(field.type, field.default, (*inside, id(field)))


def _is_scalar(kind: Type, value: object) -> bool:
    if kind.kind == "null":
        return value is None
    if kind.kind == "boolean":
        return isinstance(value, bool)
    if kind.kind in _BITS:
        bits = _BITS[kind.kind]
        return type(value) is int and -(1 << bits) <= value < 1 << bits
    if kind.kind in ("float", "double"):
        return type(value) in (int, float)
    if not isinstance(value, str):
        return False
    if kind.kind == "enum":
        return value in kind.symbols
    is_bytes = kind.kind in ("bytes", "fixed") and all(each <= "\xff" for each in value)
    return kind.kind == "string" or (is_bytes and (kind.kind == "bytes" or len(value) == kind.size))
