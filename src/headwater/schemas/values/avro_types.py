"""The types in an Avro schema: which have names, which hold themselves, and so what may read values of it.

Asked by `avro`, and by Spark's source for values of a schema that was given to it.
"""

from __future__ import annotations

import copy
import graphlib
import io
from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal
from typing import Any, TypeAlias, cast

import fastavro
from fastavro import _read_py
from fastavro.read import LOGICAL_READERS

from headwater.schemas.values.header import Json, values_max
from headwater.schemas.values.moments import logical_of
from headwater.schemas.values.scalars import PRIMITIVES

Kind: TypeAlias = Any
"""A schema, or a type in it, as fastavro has parsed it."""
Reader = Callable[[io.BytesIO, Kind, Kind], Json]
NAMED = ("record", "error", "enum", "fixed")
_DECIMAL = "headwater-decimal"
"""Avro's decimal by a name of our own: fastavro asks `_decimal` for it, and others' stay as they are."""
DECIMAL_BYTES_MAX = 400
_EXACT = Context(prec=2_000)
_TIMES = ("time-millis", "time-micros")
FREE_MAX = 100
"""Values in one value that take no byte: nulls, and records of nothing else."""


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
    if isinstance(kind, list):
        for each in kind:
            _learn(each, named)
    elif isinstance(kind, dict):
        if kind["type"] in NAMED:
            named[kind["name"]] = kind
        inner = [each["type"] for each in kind.get("fields", ())]
        inner += [kind[name] for name in ("items", "values") if name in kind]
        for each in inner:
            _learn(each, named)


def reader_of(schema: Kind, *, for_columns: bool = False) -> Reader:
    """What reads values of a schema: bytes of a stranger's decide how deep it goes and how much it makes.

    fastavro's compiled reader goes as deep as they say, and ends the process beyond the stack: where a type
    holds itself, its reader in Python does it, which Python bounds. Of items that take no byte a few bytes
    may name any number, and forty records of two fields each, one in the other, are 2⁴⁰ without any: such
    schemas are not read. `for_columns`: times of a day are numbers, as columns have them.
    """
    types = _Types(named_in(schema))
    free = types.most_free(schema)
    if any(types.is_empty(each) for each in types.items(schema)) or free > FREE_MAX:
        return _refuse_endless
    reader = _read_py.schemaless_reader if types.hold_themselves() else fastavro.schemaless_reader
    own = converting(copy.deepcopy(schema), for_columns=for_columns)

    def read(data: io.BytesIO, _: Kind, read_as: Kind) -> Json:
        size = data.getbuffer().nbytes
        if free * size > values_max(size):
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


class _Types:
    """What stands in which type; each that has a name is looked at once."""

    def __init__(self, named: Mapping[str, Kind]) -> None:
        self._named = named
        self._empty: dict[str, bool] = {}
        self._free: dict[str, int] = {}

    def hold_themselves(self) -> bool:
        uses = {name: set(self._names_in(kind)) for name, kind in self._named.items()}
        try:
            graphlib.TopologicalSorter(uses).prepare()
        except graphlib.CycleError:
            return True
        return False

    def items(self, schema: Kind) -> Iterator[Kind]:
        """Of all lists."""
        for root in [schema, *self._named.values()]:
            for kind in self.parts(root):
                if isinstance(kind, dict) and kind["type"] == "array":
                    yield kind["items"]

    def is_empty(self, kind: Kind) -> bool:
        """Whether a value may be written in no byte: a union has a number, a list or a map its end."""
        if isinstance(kind, str) and kind in self._named:
            if kind not in self._empty:
                self._empty[kind] = False  # one that holds itself has a union around that
                self._empty[kind] = self._is_empty(self._named[kind])
            return self._empty[kind]
        return self._is_empty(kind)

    def _is_empty(self, kind: Kind) -> bool:
        if isinstance(kind, str | list):
            return kind == "null"
        if kind["type"] == "fixed":
            return not kind["size"]
        if kind["type"] in ("record", "error"):
            return all(self.is_empty(each["type"]) for each in kind["fields"])
        return bool(kind["type"] == "null")

    def most_free(self, schema: Kind) -> int:
        """The most in something for which a byte is paid at most once, up to one more than `FREE_MAX`."""
        parts = (part for root in [schema, *self._named.values()] for part in self.parts(root))
        return max(map(self._count_free, parts))

    def _count_free(self, kind: Kind) -> int:
        """Up to unions, lists and maps, each of which takes a byte."""
        if isinstance(kind, str) and kind in self._named:
            if kind not in self._free:
                self._free[kind] = FREE_MAX + 1  # for one that holds itself without a union
                self._free[kind] = self._free_in(self._named[kind])
            return self._free[kind]
        return self._free_in(kind)

    def _free_in(self, kind: Kind) -> int:
        own = int(self.is_empty(kind))
        if not isinstance(kind, dict) or kind["type"] not in ("record", "error"):
            return own
        inner = sum(self._count_free(each["type"]) for each in kind["fields"])
        return min(own + inner, FREE_MAX + 1)

    def _names_in(self, kind: Kind) -> Iterator[str]:
        for part in self.parts(kind):
            name = part.get("name") if isinstance(part, dict) else part
            if part is not kind and isinstance(name, str) and name in self._named:
                yield name

    def parts(self, kind: Kind) -> Iterator[Kind]:
        """A type and what stands in it, up to those that have names."""
        yield kind
        inner = kind if isinstance(kind, list) else []
        if isinstance(kind, dict):
            inner = [each["type"] for each in kind.get("fields", ())]
            inner += [kind[name] for name in ("items", "values") if name in kind]
        for each in inner:
            if isinstance(each, dict) and each["type"] in NAMED:
                yield each
            else:
                yield from self.parts(each)
