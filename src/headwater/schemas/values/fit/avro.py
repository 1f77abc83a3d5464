"""From what JSON has to what fastavro writes, type by type: exactly, or refused with the field's name.

`AvroCodec.encode` calls it. Nothing is left for fastavro to choose or to convert: a union's value goes with
its branch, logical types are numbers and bytes already, a field that is missing has its default.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import NamedTuple

from headwater.schemas.values import moments, scalars
from headwater.schemas.values.allowance import COMPARED, SEARCHED, Allowance
from headwater.schemas.values.avro_types import Kind, branch_name, named_in, settled
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.fit.avro_defaults import Defaults
from headwater.schemas.values.header import Json
from headwater.schemas.values.scalars import PRIMITIVES, REFUSED, primitive

_UNTRIED = object()
_NAMED_MAX = 10
"""Branches, in a sentence."""
_TYPES: dict[str, tuple[type, ...]] = {
    "null": (type(None),), "boolean": (bool,), "int": (int, str), "long": (int, str),
    "float": (int, float, Decimal, str), "double": (int, float, Decimal, str), "string": (str,),
    "bytes": (int, float, Decimal, str), "fixed": (int, float, Decimal, str), "enum": (str,),
    "array": (list,), "map": (dict,), "record": (dict,), "error": (dict,),
}  # fmt: skip
"""What JSON may have for a value of a type, or of a logical type of it."""


class Branch(NamedTuple):
    """Of a union."""

    name: str
    kind: Kind
    place: int


class Fit:
    """By one schema. For several threads."""

    def __init__(self, schema: Kind) -> None:
        self._root = schema
        self._named = named_in(schema)
        self._symbols = {
            name: frozenset(each["symbols"])
            for name, each in self._named.items()
            if each["type"] == "enum"
        }
        self._branches: dict[tuple[int, type], list[Branch]] = {}

    def __call__(self, value: Json) -> Json:
        """Raises NotOfItsSchema."""
        return _One(self, value).of(value, self._root, "")

    def settled(self, kind: Kind) -> Kind:
        return settled(kind, self._named)

    def is_symbol(self, value: str, enum: Kind) -> bool:
        return value in self._symbols[enum["name"]]

    def branches(self, kinds: list[Kind], value: Json) -> Sequence[Branch]:
        """Of a union, those that a value of this type may be, the likeliest first."""
        place = (id(kinds), type(value))
        found = self._branches.get(place)
        if found is None:
            all_of_it = [Branch(branch_name(each), each, n) for n, each in enumerate(kinds)]
            likely = sorted(all_of_it, key=lambda each: _rank(each.kind, value))
            found = self._branches[place] = [
                each for each in likely if self._may_be(each.kind, value)
            ]
        return found

    def _may_be(self, kind: Kind, value: Json) -> bool:
        own = self.settled(kind)
        name = own if isinstance(own, str) else own["type"]
        return isinstance(value, _TYPES.get(name, (object,)))


class _One:
    """One value."""

    def __init__(self, fit: Fit, value: Json) -> None:
        self._fit = fit
        self._allowance = Allowance(value)
        self._tried: dict[tuple[int, int], Json | NotOfItsSchema] = {}
        """Parts of a value with the branches that were tried, which each union around would try again."""
        self._defaults = Defaults(fit._named)

    def of(self, value: Json, kind: Kind, where: str) -> Json:
        kind = self._fit.settled(kind)
        if isinstance(kind, list):
            return self._union(value, kind, where)
        name = kind if isinstance(kind, str) else kind["type"]
        if name in ("record", "error"):
            return self._record(value, kind, where)
        if name == "array" and isinstance(value, list):
            return [self.of(each, kind["items"], f"{where}[{n}]") for n, each in enumerate(value)]
        if name == "map" and isinstance(value, dict):
            return {k: self.of(v, kind["values"], f"{where}.{k}") for k, v in value.items()}
        logical = moments.logical_of(kind)
        try:
            if name == "enum":
                return self._symbol(value, kind)
            return (
                primitive(value, name, kind) if logical is None else _LOGICAL[logical](value, kind)
            )
        except REFUSED:
            raise _misfit(value, logical or name, where) from None

    def _symbol(self, value: Json, kind: Kind) -> str:
        self._allowance.take(len(kind["symbols"]) // COMPARED)
        if isinstance(value, str) and self._fit.is_symbol(value, kind):
            return value
        raise TypeError

    def _record(self, value: Json, kind: Kind, where: str) -> Json:
        if not isinstance(value, dict):
            raise _misfit(value, kind["name"], where)
        self._allowance.take(len(kind["fields"]) // SEARCHED)
        made: dict[str, Json] = {}
        for field in kind["fields"]:
            name, own = field["name"], field["type"]
            try:
                made[name] = PRIMITIVES[own](value[name])  # most are, and nothing else is asked
            except (*REFUSED, LookupError):
                made[name] = self._field(value, field, f"{where}.{name}" if where else name)
        if len(value) > len(made) or not made.keys() >= value.keys():
            unknown = next(name for name in value if name not in made)
            raise NotOfItsSchema(f"the schema has no field {where + '.' if where else ''}{unknown}")
        return made

    def _field(self, value: dict[str, Json], field: Kind, where: str) -> Json:
        if field["name"] in value:
            return self.of(value[field["name"]], field["type"], where)
        if "default" not in field:
            raise NotOfItsSchema(f"the field {where} is missing")
        return self._defaults.of(field["default"], field["type"], where)

    def _union(self, value: Json, kinds: list[Kind], where: str) -> Json:
        found: list[tuple[str, Json]] = []
        refused: NotOfItsSchema | None = None
        for branch, inner in self._ways(value, kinds):
            made = self._branch(inner, branch.kind, where)
            if not isinstance(made, NotOfItsSchema):
                self._allowance.take(branch.place)  # who writes it looks for it
                found.append((branch.name, made))
                if not isinstance(value, dict):
                    return found[0]
            elif branch.kind != "null":
                refused = made
        if len(found) > 1:
            said = " or ".join(name for name, _ in found)
            raise NotOfItsSchema(
                f"the field {where or 'value'} may be {said[:200]}: say which, as in {{NAME: …}}"
            )
        if not found:
            raise refused or _misfit(value, _said(kinds), where)
        return found[0]

    def _ways(self, value: Json, kinds: list[Kind]) -> Iterator[tuple[Branch, Json]]:
        for each in self._fit.branches(kinds, value):
            yield each, value
        if isinstance(value, dict) and len(value) == 1:
            self._allowance.take(len(kinds) // SEARCHED)
            ((name, inner),) = value.items()
            for place, kind in enumerate(kinds):
                if branch_name(kind) == name:
                    yield Branch(name, kind, place), inner

    def _branch(self, value: Json, kind: Kind, where: str) -> Json | NotOfItsSchema:
        self._allowance.take(1)
        place = (id(value), id(kind))
        made = self._tried.get(place, _UNTRIED)
        if made is _UNTRIED:
            try:
                made = self.of(value, kind, where)
            except NotOfItsSchema as error:
                made = error
            if isinstance(value, dict | list):
                self._tried[place] = made
        return made


def _said(kinds: list[Kind]) -> str:
    names = [name for name in map(branch_name, kinds[:_NAMED_MAX]) if name != "null"]
    return " or ".join(names) or "null"


def _rank(kind: Kind, value: Json) -> int:
    """A double holds what a float rounds; a text is one before it is NaN or bytes, a number before a time."""
    if isinstance(value, str):
        name = kind if isinstance(kind, str) else kind["type"]
        return 2 if name in ("float", "double") else int(name in ("bytes", "fixed"))
    return 1 if kind == "float" else 2 * (moments.logical_of(kind) is not None)


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
