"""From what JSON has to what fastavro writes, type by type: exactly, or refused with the field's name.

`AvroCodec.encode` calls it. Nothing is left for fastavro to choose or to convert: a union's value goes with
its branch, logical types are numbers and bytes already, a field that is missing has its default.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal

from fastavro.read import LOGICAL_READERS

from headwater.schemas.values import moments, scalars
from headwater.schemas.values.avro_types import NAMED, Kind, named_in
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.header import Json
from headwater.schemas.values.scalars import PRIMITIVES

_UNTRIED = object()
_REFUSED = (TypeError, ValueError, ArithmeticError, AttributeError)


class Fit:
    def __init__(self, schema: Kind) -> None:
        self._root = schema
        self._named = named_in(schema)
        self._tried: dict[tuple[int, int], Json | NotOfItsSchema] = {}
        """Parts of a value with the branches that were tried, which each union around would try again."""

    def __call__(self, value: Json) -> Json:
        """Raises NotOfItsSchema."""
        own = Fit.__new__(Fit)
        own._root, own._named, own._tried = self._root, self._named, {}
        return own._of(value, own._root, "")

    def _settled(self, kind: Kind) -> Kind:
        """Its definition, where it is a name or stands in braces of its own."""
        if isinstance(kind, str) and kind not in PRIMITIVES:
            kind = self._named.get(kind, kind)
        if isinstance(kind, dict) and isinstance(kind["type"], dict | list):
            return self._settled(kind["type"])
        return kind

    def _of(self, value: Json, kind: Kind, where: str) -> Json:
        kind = self._settled(kind)
        if isinstance(kind, list):
            return self._union(value, kind, where)
        name = kind if isinstance(kind, str) else kind["type"]
        if name in ("record", "error"):
            return self._record(value, kind, where)
        if name == "array" and isinstance(value, list):
            return [self._of(each, kind["items"], f"{where}[{n}]") for n, each in enumerate(value)]
        if name == "map" and isinstance(value, dict):
            return {k: self._of(v, kind["values"], f"{where}.{k}") for k, v in value.items()}
        logical = moments.logical_of(kind)
        try:
            return (
                _primitive(value, name, kind) if logical is None else _LOGICAL[logical](value, kind)
            )
        except _REFUSED:
            raise _misfit(value, logical or name, where) from None

    def _record(self, value: Json, kind: Kind, where: str) -> Json:
        if not isinstance(value, dict):
            raise _misfit(value, kind["name"], where)
        made: dict[str, Json] = {}
        for field in kind["fields"]:
            name, own = field["name"], field["type"]
            try:
                made[name] = PRIMITIVES[own](value[name])  # most are, and nothing else is asked
            except (*_REFUSED, LookupError):
                made[name] = self._field(value, field, f"{where}.{name}" if where else name)
        if len(value) > len(made) or not made.keys() >= value.keys():
            unknown = next(name for name in value if name not in made)
            raise NotOfItsSchema(f"the schema has no field {where + '.' if where else ''}{unknown}")
        return made

    def _field(self, value: dict[str, Json], field: Kind, where: str) -> Json:
        if field["name"] in value:
            return self._of(value[field["name"]], field["type"], where)
        if "default" not in field:
            raise NotOfItsSchema(f"the field {where} is missing")
        return self._default(field["default"], field["type"], where)

    def _union(self, value: Json, kinds: list[Kind], where: str) -> Json:
        found: list[tuple[str, Json]] = []
        refused: NotOfItsSchema | None = None
        ways = [(kind, value) for kind in sorted(kinds, key=lambda each: _rank(each, value))]
        if isinstance(value, dict) and len(value) == 1:
            ways += [(kind, value[_name(kind)]) for kind in kinds if _name(kind) in value]
        for kind, inner in ways:
            made = self._branch(inner, kind, where)
            if not isinstance(made, NotOfItsSchema):
                found.append((_name(kind), made))
                if not isinstance(value, dict):
                    return found[0]
            elif kind != "null":
                refused = made
        if len(found) > 1:
            said = " or ".join(name for name, _ in found)
            raise NotOfItsSchema(
                f"the field {where or 'value'} may be {said}: say which, as in {{NAME: …}}"
            )
        if not found:
            raise refused or _misfit(value, "null", where)
        return found[0]

    def _branch(self, value: Json, kind: Kind, where: str) -> Json | NotOfItsSchema:
        place = (id(value), id(kind))
        made = self._tried.get(place, _UNTRIED)
        if made is _UNTRIED:
            try:
                made = self._of(value, kind, where)
            except NotOfItsSchema as error:
                made = error
            if isinstance(value, dict | list):
                self._tried[place] = made
        return made

    def settle_defaults(self) -> None:
        """Every field's default, in the schema itself, as a reader is to find it: fastavro hands it out so.

        One that is no value of its field stays as it is.
        """
        for kind in self._named.values():
            for field in kind.get("fields", ()):
                if "default" in field:
                    with suppress(NotOfItsSchema):
                        made = self._default(field["default"], field["type"], field["name"])
                        field["default"] = self._as_read(made, field["type"])

    def _as_read(self, value: Json, kind: Kind) -> Json:
        kind = self._settled(kind)
        if isinstance(kind, list):
            name, inner = value
            return self._as_read(inner, next(each for each in kind if _name(each) == name))
        if not isinstance(kind, dict):
            return value
        if kind["type"] in ("record", "error"):
            fields = {each["name"]: each["type"] for each in kind["fields"]}
            return {name: self._as_read(each, fields[name]) for name, each in value.items()}
        if kind["type"] == "array":
            return [self._as_read(each, kind["items"]) for each in value]
        if kind["type"] == "map":
            return {name: self._as_read(each, kind["values"]) for name, each in value.items()}
        convert = LOGICAL_READERS.get(f"{kind['type']}-{kind.get('logicalType')}")
        return value if convert is None else convert(value, kind, None)

    def _default(self, value: Json, kind: Kind, where: str) -> Json:
        """As a schema has it: bytes are letters, logical types what they are made of, no branch is named."""
        kind = self._settled(kind)
        if isinstance(kind, list):
            return self._default_of_union(value, kind, where)
        name = kind if isinstance(kind, str) else kind["type"]
        if name in ("record", "error") and isinstance(value, dict):
            return {
                each["name"]: self._default(
                    value[each["name"]] if each["name"] in value else each["default"],
                    each["type"],
                    f"{where}.{each['name']}",
                )
                for each in kind["fields"]
                if each["name"] in value or "default" in each
            }
        if name == "array" and isinstance(value, list):
            return [self._default(each, kind["items"], where) for each in value]
        if name == "map" and isinstance(value, dict):
            return {key: self._default(each, kind["values"], where) for key, each in value.items()}
        try:
            if name in ("bytes", "fixed"):
                return _sized(value.encode("latin-1"), name, kind)
            return _primitive(value, name, kind)
        except _REFUSED:
            raise NotOfItsSchema(
                f"the field {where} is missing, and its default is no {name}"
            ) from None

    def _default_of_union(self, value: Json, kinds: list[Kind], where: str) -> Json:
        refused: NotOfItsSchema | None = None
        for kind in kinds:
            try:
                return _name(kind), self._default(value, kind, where)
            except NotOfItsSchema as error:
                refused = refused or error
        raise refused or NotOfItsSchema(f"the field {where} is missing")


def _name(kind: Kind) -> str:
    """Of a branch of a union, in which it stands once."""
    if isinstance(kind, str):
        return kind
    return str(kind["name"] if kind["type"] in NAMED else kind["type"])


def _rank(kind: Kind, value: Json) -> int:
    """A double holds what a float rounds; a text is one before it is NaN or bytes, a number before a time."""
    if isinstance(value, str):
        name = kind if isinstance(kind, str) else kind["type"]
        return 2 if name in ("float", "double") else int(name in ("bytes", "fixed"))
    return 1 if kind == "float" else 2 * (moments.logical_of(kind) is not None)


def _primitive(value: Json, name: str, kind: Kind) -> Json:
    if name in PRIMITIVES:
        return PRIMITIVES[name](value)
    if name == "fixed":
        return _sized(scalars.octets(value), name, kind)
    if name == "enum" and value in kind["symbols"]:
        return value
    raise TypeError


def _sized(data: bytes, name: str, kind: Kind) -> bytes:
    if name == "fixed" and len(data) != kind["size"]:
        raise ValueError
    return data


def _decimal(value: Json, kind: Kind) -> bytes:
    unscaled = moments.decimal(value, kind["precision"], kind.get("scale", 0))
    size = kind["size"] if kind["type"] == "fixed" else (unscaled.bit_length() + 8) // 8
    return unscaled.to_bytes(size, "big", signed=True)


def _uuid(value: Json, _: Kind) -> str:
    if str(uuid.UUID(value)) != value.lower():
        raise ValueError
    return str(value)


def _since_midnight(unit: str) -> Callable[[Json, Kind], Json]:
    return lambda value, _: moments.since_midnight(value, unit)


def _since_epoch(unit: str, *, is_local: bool) -> Callable[[Json, Kind], Json]:
    return lambda value, _: scalars.long(moments.since_epoch(value, unit, is_local=is_local))


_LOGICAL: dict[str, Callable[[Json, Kind], Json]] = {
    "decimal": _decimal,
    "uuid": _uuid,
    "date": lambda value, _: scalars.integer(moments.days(value)),
    "time-millis": _since_midnight("millis"),
    "time-micros": _since_midnight("micros"),
    "timestamp-millis": _since_epoch("millis", is_local=False),
    "timestamp-micros": _since_epoch("micros", is_local=False),
    "local-timestamp-millis": _since_epoch("millis", is_local=True),
    "local-timestamp-micros": _since_epoch("micros", is_local=True),
}
"""Those of `logical_of`, which fastavro reads as what they mean."""


def _misfit(value: Json, name: str, where: str) -> NotOfItsSchema:
    shown = str(value) if isinstance(value, Decimal) else repr(value)
    return NotOfItsSchema(f"the field {where or 'value'} is {shown[:80]}, which is no {name}")
