"""The types in an Avro schema: which have names, which hold themselves, and so what may read values of it.

Asked by `avro`, and by Spark's source for values of a schema that was given to it.
"""

from __future__ import annotations

import copy
import graphlib
import io
import math
from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal
from typing import Any, NamedTuple, TypeAlias, cast

import fastavro
from fastavro import _read_py
from fastavro.read import LOGICAL_READERS

from headwater.schemas.bounds import NAME_LETTERS_MAX
from headwater.schemas.values.header import Json, letters_max, letters_of
from headwater.schemas.values.moments import logical_of
from headwater.schemas.values.scalars import PRIMITIVES

Kind: TypeAlias = Any
"""A schema, or a type in it, as fastavro has parsed it."""
Reader = Callable[[io.BytesIO, Kind, Kind], Json]
LISTS = ("array", "map")
NAMED = ("record", "error", "enum", "fixed")
_DECIMAL = "headwater-decimal"
"""Avro's decimal by a name of our own: fastavro asks `_decimal` for it, and others' stay as they are."""
DECIMAL_BYTES_MAX = 400
_EXACT = Context(prec=2_000)
_TIMES = ("time-millis", "time-micros")
LEVELS_MAX = 500
"""Of types in each other, which take the stack of who reads them in compiled code."""


def named_in(schema: Kind) -> dict[str, Kind]:
    """The types that have names, by these; those that the schema refers to among them."""
    found = schema.get("__named_schemas", {}) if isinstance(schema, dict) else {}
    named = dict(found)
    _learn(schema, named)
    return named


def settled(kind: Kind, named: Mapping[str, Kind]) -> Kind:
    """Its definition, where it is a name or stands in braces of its own."""
    if isinstance(kind, str) and kind not in PRIMITIVES:
        kind = named.get(kind, kind)
    if isinstance(kind, dict) and isinstance(kind["type"], dict | list):
        return settled(kind["type"], named)
    return kind


def branch_name(kind: Kind) -> str:
    """Of a branch of a union, in which it stands once."""
    if isinstance(kind, str):
        return kind
    return str(kind["name"] if kind["type"] in NAMED else kind["type"])


def _learn(kind: Kind, named: dict[str, Kind]) -> None:
    if _is_named(kind):
        named[kind["name"]] = kind
    for each in _inside(kind):
        _learn(each, named)


def reader_of(schema: Kind, known: Kind = None, *, for_columns: bool = False) -> Reader:
    """What reads values of a schema: bytes of a stranger's decide how deep it goes and how much it makes.

    fastavro's compiled reader goes as deep as they say, and ends the process beyond the stack: where a type
    holds itself, or very many each other, its reader in Python does it, which Python bounds. Of items that
    take no byte a few bytes may name any number, and forty records of two fields each, one in the other, are
    2⁴⁰ without any: such schemas are not read. `known`: as which they are read. `for_columns`: times of a day
    are numbers, as columns have them.
    """
    types = _Types(named_in(schema), named_in(known))
    most = types.most_letters(schema)
    if max(most) > letters_max(0):
        return _refuse_endless
    is_shallow = types.levels() <= LEVELS_MAX
    reader = fastavro.schemaless_reader if is_shallow else _read_py.schemaless_reader
    own = converting(copy.deepcopy(schema), for_columns=for_columns)

    def read(data: io.BytesIO, _: Kind, read_as: Kind) -> Json:
        size = data.getbuffer().nbytes
        if most.once + most.of_a_byte * size > letters_max(size):
            _refuse_endless()
        return cast("Reader", reader)(data, own, read_as)

    return read


def converting(schema: Kind, *, for_columns: bool) -> Kind:
    """The schema itself, with the logical types that fastavro is to make of values; see `reader_of`."""
    named = named_in(schema)
    types = _Types(named)
    for root in [schema, *named.values()]:
        for kind in types.parts(root):
            if (means := logical_of(kind)) == "decimal":
                kind["logicalType"] = _DECIMAL
            elif for_columns and means in _TIMES:
                del kind["logicalType"]
    return schema


def _decimal(data: bytes, written: Kind, _: Kind) -> Decimal:
    """All of its digits. fastavro would round it to the schema's precision, and takes minutes for many."""
    if len(data) > DECIMAL_BYTES_MAX:
        raise ValueError(
            f"a decimal of {len(data)} bytes, of which {DECIMAL_BYTES_MAX} are the most"
        )
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(
        -written.get("scale", 0), _EXACT
    )


for _type in ("bytes", "fixed"):
    LOGICAL_READERS[f"{_type}-{_DECIMAL}"] = _decimal


def _refuse_endless(*_: object) -> Json:
    raise ValueError("its schema lets a few bytes be very many values without a byte")


class Letters(NamedTuple):
    """The most in JSON of what stands around the values that take bytes: names, nulls, records of nothing."""

    once: float
    of_a_byte: float


class _Types:
    """What stands in which type; each that has a name is looked at once."""

    def __init__(self, named: Mapping[str, Kind], known: Mapping[str, Kind] | None = None) -> None:
        self._named = named
        records = [each for each in (known or {}).values() if "fields" in each]
        self._read = {each["name"].rpartition(".")[2]: _names_in_json(each) for each in records}
        """What a record is read as may have more fields."""
        self._records: dict[str, tuple[float, float]] = {}

    def levels(self) -> float:
        """How deep a value can be; infinite where a type holds itself."""
        uses = {name: set(self._names_in(kind)) for name, kind in self._named.items()}
        found: dict[str, int] = {}
        try:
            for name in graphlib.TopologicalSorter(uses).static_order():
                inside = max((found[each] for each in uses[name]), default=0)
                found[name] = self._depth(self._named[name]) + inside
        except graphlib.CycleError:
            return math.inf
        return max(found.values(), default=0)

    def _depth(self, kind: Kind) -> int:
        """Up to those that have names."""
        inner = (each for each in _inside(kind) if not _is_named(each))
        return 1 + max(map(self._depth, inner), default=0)

    def most_letters(self, schema: Kind) -> Letters:
        """A union takes a byte for its branch, a map one for each name, and what is left of a list's items,
        or of all, is paid by their own bytes: where they have none, a list may be of any number."""
        direct = {name: set(self._fields_of(kind)) for name, kind in self._named.items()}
        try:
            for name in graphlib.TopologicalSorter(direct).static_order():
                self._records[name] = self._record(self._named[name])
        except graphlib.CycleError:
            return Letters(
                math.inf, math.inf
            )  # a record in itself, without a union: it has no value
        most, (letters, size) = 0.0, self._around(schema)
        for root in [schema, *self._named.values()]:
            for kind in self.parts(root):
                is_list = isinstance(kind, dict) and kind["type"] == "array"
                if isinstance(kind, list) or (isinstance(kind, dict) and kind["type"] in LISTS):
                    for each in _inside(kind):
                        around, least = self._around(each)
                        least += not is_list
                        most = max(most, (around + is_list) / least if least else math.inf)
        return Letters(letters, max(most, letters / size if size else 0))

    def _around(self, kind: Kind) -> tuple[float, float]:
        """The letters around what takes bytes, and the fewest bytes that take it."""
        name = kind.get("name") if isinstance(kind, dict) and _is_named(kind) else kind
        if isinstance(name, str):
            return self._records.get(name, (0.0, float(name != "null")))
        return 0.0, float(not isinstance(kind, dict) or kind["type"] != "null")

    def _record(self, kind: Kind) -> tuple[float, float]:
        if kind["type"] == "fixed":
            return 0.0, float(kind["size"])
        if kind["type"] == "enum":
            return float(NAME_LETTERS_MAX), 1.0
        inner = [self._around(each["type"]) for each in kind["fields"]]
        simple = kind["name"].rpartition(".")[2]
        read_as = self._read.get(simple, max(self._read.values(), default=0))
        names = max(_names_in_json(kind), read_as)
        return names + sum(each for each, _ in inner), sum(each for _, each in inner)

    def _fields_of(self, kind: Kind) -> Iterator[str]:
        for each in kind.get("fields", ()):
            own = each["type"]
            name = own.get("name") if isinstance(own, dict) and _is_named(own) else own
            if isinstance(name, str) and name in self._named:
                yield name

    def _names_in(self, kind: Kind) -> Iterator[str]:
        for part in self.parts(kind):
            name = part.get("name") if isinstance(part, dict) else part
            if part is not kind and isinstance(name, str) and name in self._named:
                yield name

    def parts(self, kind: Kind) -> Iterator[Kind]:
        """A type and what stands in it, up to those that have names."""
        yield kind
        for each in _inside(kind):
            if _is_named(each):
                yield each
            else:
                yield from self.parts(each)


def _names_in_json(record: Kind) -> int:
    return sum(letters_of(each["name"]) for each in record["fields"])


def _is_named(kind: Kind) -> bool:
    return isinstance(kind, dict) and kind["type"] in NAMED


def _inside(kind: Kind) -> list[Kind]:
    if not isinstance(kind, dict):
        return kind if isinstance(kind, list) else []
    found = [each["type"] for each in kind.get("fields", ())]
    return found + [kind[name] for name in ("items", "values") if name in kind]
