"""A writer's Avro schema as the steps of `program`, for the columns that a query wants.

`registry` asks for each schema that values name. Columns are found by their names, or by aliases of the
schema that the query was started with; what the writer does not have is that schema's default, or null. Not
everything can be read so (arrays, maps, unions of several types, a type that only Spark's rules would turn
into the column's): `plan` then says None, and the values are read one by one.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headwater.schemas.values.avro_types import named_in
from headwater.schemas.values.moments import logical_of
from headwater.spark.source.values.avro_columns import program
from headwater.spark.source.values.avro_columns.arrays import (
    LOCAL,
    STAMPS,
    Avro,
    AvroColumns,
    Constant,
    Leaf,
    Struct,
    Unfit,
    type_name,
)

STEPS_MAX = 50_000
"""Of one value: a schema may name a record of records twice in each."""
_NUMBERS = {"int": 32, "long": 64}
_Made = Leaf | Constant | Struct


def plan(written: Avro, kind: pa.StructType, pinned: Avro = None) -> AvroColumns | None:
    """`written` and `pinned` as fastavro parsed them; None where values must be read one by one."""
    if type_name(written) != "record":
        return None
    planner = _Planner(written.get("__named_schemas", {}), named_in(pinned))
    try:
        root = planner.record(written, kind, pinned if type_name(pinned) == "record" else None, -1)
    except Unfit:
        return None
    return AvroColumns(planner.steps, planner.slots, root)


class _Planner:
    def __init__(self, named: Mapping[str, Avro], known: Mapping[str, Avro]) -> None:
        """`named`: the types that the schema refers to, by their names; `known`: all of the pinned one."""
        self.steps: list[tuple[int, int, int, int]] = []
        self.slots = 0
        self._named = dict(named)
        self._known = known
        self._open: list[str] = []

    def slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def add(self, step: int, a: int = 0, b: int = 0, c: int = 0) -> None:
        if len(self.steps) >= STEPS_MAX:
            raise Unfit
        self.steps.append((step, a, b, c))

    def record(self, written: Avro, kind: pa.StructType | None, pinned: Avro, slot: int) -> Struct:
        """`kind` None: it is passed over."""
        if written["name"] in self._open:
            raise Unfit  # it holds itself
        self._open.append(written["name"])
        self._named[written["name"]] = written
        wanted = {} if kind is None else _wanted(written, kind, pinned)
        made = {
            each["name"]: self.value(
                each["type"], *wanted.get(each["name"], (None, None, None))[1:]
            )
            for each in written["fields"]
        }
        self._open.pop()
        if kind is None:
            return Struct(pa.struct([]), slot)
        by_column = {column: made[name] for name, (column, *_) in wanted.items()}
        fields = _fields(pinned)
        inside = [by_column.get(each.name) or _missing(each, fields) for each in kind]
        return Struct(kind, slot, inside)

    def value(self, written: Avro, kind: pa.DataType | None, pinned: Avro) -> _Made | None:
        if isinstance(written, list):
            return self._union(written, kind, pinned)
        if isinstance(written, str) and written in self._named:
            written = self._named[written]
        if isinstance(written, dict) and "name" in written:
            self._named[written["name"]] = written
        pinned = _not_null(pinned)
        if isinstance(pinned, str):
            pinned = self._known.get(pinned, pinned)
        name = type_name(written)
        if name == "record":
            if kind is not None and not pa.types.is_struct(kind):
                raise Unfit
            slot = -1 if kind is None else self.slot()
            self.add(program.STRUCT, slot)
            inner = pinned if type_name(pinned) == "record" else None
            return self.record(written, kind, inner, slot)
        slot = -1 if kind is None else self.slot()
        if kind is not None and not _fits(written, kind):
            raise Unfit
        self._leaf(written, name, slot)
        return None if kind is None else Leaf(kind, slot, _resolved(written, pinned))

    def _leaf(self, written: Avro, name: str, slot: int) -> None:
        if name in _NUMBERS:
            self.add(program.NUMBER, slot, _NUMBERS[name])
        elif name in ("string", "bytes"):
            self.add(program.STRING, slot)
        elif name == "enum":
            self.add(program.ENUM, slot, len(written["symbols"]))
        elif name == "fixed":
            self.add(program.FIXED, slot, written["size"])
        elif name in ("float", "double", "boolean"):
            steps = {"float": program.FLOAT, "double": program.DOUBLE, "boolean": program.BOOLEAN}
            self.add(steps[name], slot)
        elif name != "null":
            raise Unfit

    def _union(self, written: list[Avro], kind: pa.DataType | None, pinned: Avro) -> _Made | None:
        others = [each for each in written if each != "null"]
        if len(others) != 1 or len(written) > 2:
            raise Unfit
        null = written.index("null") if "null" in written else -1
        at = len(self.steps)
        self.add(program.UNION, null, len(written))
        made = self.value(others[0], kind, pinned)
        self.steps[at] = (program.UNION, null, len(written), len(self.steps))
        return made


def _wanted(
    written: Avro, kind: pa.StructType, pinned: Avro
) -> dict[str, tuple[str, pa.DataType, Avro]]:
    """The writer's fields that are columns: name → (column, its type, the pinned field's type)."""
    fields, names = _fields(pinned), {each["name"] for each in written["fields"]}
    found: dict[str, tuple[str, pa.DataType, Avro]] = {}
    for each in kind:
        told = fields.get(each.name, {})
        name = next((n for n in (each.name, *told.get("aliases", ())) if n in names), None)
        if name is not None:
            found[name] = (each.name, each.type, told.get("type"))
    return found


def _missing(column: pa.Field, fields: Mapping[str, Avro]) -> Constant:
    default = fields.get(column.name, {}).get("default")
    if default is None:
        return Constant(column.type, None)
    plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type)
    if plain or pa.types.is_string(column.type) or pa.types.is_boolean(column.type):
        return Constant(column.type, default)
    raise Unfit


def _resolved(written: Avro, pinned: Avro) -> Avro:
    """An enum with the symbols as whom the reader knows them: one that it does not have is its default."""
    if type_name(written) != "enum" or type_name(pinned) != "enum" or "default" not in pinned:
        return written
    known = pinned["symbols"]
    symbols = [each if each in known else pinned["default"] for each in written["symbols"]]
    return {**written, "symbols": symbols}


def _fields(pinned: Avro) -> dict[str, Avro]:
    return {} if pinned is None else {each["name"]: each for each in pinned["fields"]}


def _not_null(kind: Avro) -> Avro:
    if not isinstance(kind, list):
        return kind
    others = [each for each in kind if each != "null"]
    return others[0] if len(others) == 1 else None


def _fits(written: Avro, kind: pa.DataType) -> bool:
    """Whether every value of the writer's type is one of the column's; Avro's promotions are."""
    name = type_name(written)
    logical = logical_of(written)
    if logical == "decimal":
        wide = pa.types.is_decimal(kind) and kind.scale == written.get("scale", 0)
        return bool(wide and kind.bit_width == 128 and kind.precision >= written["precision"])
    if logical in STAMPS or logical in LOCAL:
        zoned = logical in STAMPS
        return bool(pa.types.is_timestamp(kind) and (kind.tz is not None) == zoned)
    if logical == "date":
        return bool(pa.types.is_date32(kind))
    if name == "int":
        return bool(kind in (pa.int32(), pa.int64(), pa.float32(), pa.float64()))
    if name == "long":
        return bool(kind in (pa.int64(), pa.float32(), pa.float64()))
    if name == "float":
        return bool(kind in (pa.float32(), pa.float64()))
    if name == "double":
        return bool(kind == pa.float64())
    if name == "boolean":
        return bool(kind == pa.bool_())
    if name in ("string", "enum"):
        return bool(kind == pa.string())
    if name in ("bytes", "fixed"):
        return bool(kind == pa.binary())
    return False
