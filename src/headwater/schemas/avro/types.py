"""Avro schemas as objects: named types are resolved, so that a recursive schema is a cycle; pure.

Called by `document`, read by `compatibility` and `form`. Names are full names. What the specification
does not know stays in `more`, in the order in which it came.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from headwater.schemas.bounds import check_name
from headwater.schemas.errors import InvalidSchema

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
NAMED = ("record", "error", "enum", "fixed")
MISSING: object = object()
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAMESPACE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_KNOWN = {
    "type",
    "name",
    "namespace",
    "doc",
    "aliases",
    "fields",
    "symbols",
    "items",
    "values",
    "size",
}
_KNOWN_OF_FIELD = {"name", "type", "doc", "default", "order", "aliases"}


class Type:
    """One type. Which attributes count depends on `kind`."""

    __slots__ = ("kind", "name", "aliases", "doc", "more", "fields", "symbols", "default", "item",
                 "branches", "size", "is_imported")  # fmt: skip

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = ""
        self.aliases: tuple[str, ...] = ()
        self.doc: object = None
        self.more: dict[str, object] = {}
        self.fields: list[Field] = []
        self.symbols: list[str] = []
        self.default: object = MISSING
        """Of an enum."""
        self.item: Type | None = None
        """Of an array, or the values of a map."""
        self.branches: list[Type] = []
        self.size = 0
        self.is_imported = False
        """It is defined by a reference, and only named here."""

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def namespace(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def logical(self) -> str | None:
        found = self.more.get("logicalType")
        return found if isinstance(found, str) else None


class Field:
    __slots__ = ("name", "type", "default", "aliases", "doc", "order", "more")

    def __init__(self, name: str, kind: Type) -> None:
        self.name, self.type = name, kind
        self.default: object = MISSING
        self.aliases: tuple[str, ...] = ()
        self.doc: object = None
        self.order: str | None = None
        self.more: dict[str, object] = {}


class Names:
    """The named types of one schema, in the order in which they were defined."""

    def __init__(self) -> None:
        self.known: dict[str, Type] = {}

    def define(self, kind: Type) -> None:
        if kind.name in self.known:
            raise InvalidSchema(f"Invalid schema: Can't redefine: {kind.name}")
        self.known[kind.name] = kind

    def find(self, name: str, namespace: str) -> Type:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        found = self.known.get(full) or self.known.get(name)
        if found is None:
            raise InvalidSchema(f'Invalid schema: Undefined name: "{full}"')
        return found


def read(value: object, names: Names, namespace: str = "") -> Type:
    """The type that a value of JSON describes. Raises InvalidSchema."""
    if isinstance(value, str):
        return Type(value) if value in PRIMITIVES else names.find(value, namespace)
    if isinstance(value, list):
        return _union(value, names, namespace)
    if not isinstance(value, dict):
        raise InvalidSchema(f"Invalid schema: No type: {value!r}"[:200])
    kind = value.get("type", MISSING)
    if kind is MISSING:
        raise InvalidSchema(f"Invalid schema: No type: {value!r}"[:200])
    if isinstance(kind, dict | list) or kind not in (*PRIMITIVES, *NAMED, "array", "map"):
        return read(kind, names, namespace)  # {"type": {"type": …}}, or a name in a longer form
    made = _NAMED_READERS[kind](value, names, namespace) if kind in NAMED else Type(kind)
    if kind in ("array", "map"):
        inner = "items" if kind == "array" else "values"
        if inner not in value:
            raise InvalidSchema(f"Invalid schema: {kind} has no {inner}")
        made.item = read(value[inner], names, namespace)
    if kind not in NAMED:
        made.more = {
            key: each for key, each in value.items() if key not in ("type", "items", "values")
        }
    return made


def _union(value: list[object], names: Names, namespace: str) -> Type:
    made = Type("union")
    made.branches = [read(each, names, namespace) for each in value]
    seen: set[str] = set()
    for each in made.branches:
        if each.kind == "union":
            raise InvalidSchema("Invalid schema: Nested union")
        called = each.name or each.kind
        if called in seen:
            raise InvalidSchema(f"Invalid schema: Duplicate in union: {called}")
        seen.add(called)
    return made


def _named(value: Mapping[str, object], kind: str, names: Names, enclosing: str) -> Type:
    made = Type("record" if kind == "error" else kind)
    name, namespace = value.get("name"), value.get("namespace")
    if not isinstance(name, str) or not name:
        raise InvalidSchema(f"Invalid schema: No name in schema: {kind}")
    if "." in name:
        namespace, _, name = name.rpartition(".")
    elif not isinstance(namespace, str):
        namespace = enclosing
    if not _NAME.fullmatch(name):
        raise InvalidSchema(f"Invalid schema: Illegal character in: {name}"[:200])
    if namespace and not _NAMESPACE.fullmatch(namespace):
        raise InvalidSchema(f"Invalid schema: Illegal character in: {namespace}"[:200])
    made.name = f"{namespace}.{name}" if namespace else name
    if name in PRIMITIVES and not namespace:
        raise InvalidSchema(f"Invalid schema: Schemas may not be named after primitives: {name}")
    made.aliases = tuple(
        each if "." in each or not namespace else f"{namespace}.{each}"
        for each in _texts(value.get("aliases", ()), "aliases")
    )
    made.doc = value.get("doc")
    made.more = {key: each for key, each in value.items() if key not in _KNOWN}
    names.define(made)
    return made


def _record(value: Mapping[str, object], names: Names, enclosing: str) -> Type:
    made = _named(value, "record", names, enclosing)
    fields = value.get("fields")
    if not isinstance(fields, list):
        raise InvalidSchema("Invalid schema: Record has no fields")
    seen: set[str] = set()
    for each in fields:
        field = _field(each, names, made.namespace)
        if field.name in seen:
            raise InvalidSchema(
                f"Invalid schema: Duplicate field {field.name} in record {made.name}"
            )
        seen.add(field.name)
        made.fields.append(field)
    return made


def _field(value: object, names: Names, namespace: str) -> Field:
    if not isinstance(value, dict) or "type" not in value:
        raise InvalidSchema(f"Invalid schema: Field is not an object with a type: {value!r}"[:200])
    name = value.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidSchema(f"Invalid schema: Illegal name of a field: {name!r}"[:200])
    check_name(name)
    made = Field(name, read(value["type"], names, namespace))
    made.default = value.get("default", MISSING)
    made.aliases = _texts(value.get("aliases", ()), "aliases")
    made.doc = value.get("doc")
    order = value.get("order")
    if order is not None and order not in ("ascending", "descending", "ignore"):
        raise InvalidSchema(f"Invalid schema: Illegal order of the field {name}")
    made.order = None if order == "ascending" else order
    made.more = {key: each for key, each in value.items() if key not in _KNOWN_OF_FIELD}
    return made


def _enum(value: Mapping[str, object], names: Names, enclosing: str) -> Type:
    made = _named(value, "enum", names, enclosing)
    made.symbols = list(_texts(value.get("symbols", MISSING), "symbols"))
    if len(set(made.symbols)) != len(made.symbols):
        raise InvalidSchema(f"Invalid schema: Duplicate enum symbol in {made.name}")
    for each in made.symbols:
        check_name(each)
        if not _NAME.fullmatch(each):
            raise InvalidSchema(f"Invalid schema: Illegal character in: {each}"[:200])
    made.default = made.more.pop("default", MISSING)
    if made.default is not MISSING and made.default not in made.symbols:
        raise InvalidSchema(
            f"Invalid schema: The Enum Default: {made.default} is not in the enum symbol set"
        )
    return made


def _fixed(value: Mapping[str, object], names: Names, enclosing: str) -> Type:
    made = _named(value, "fixed", names, enclosing)
    size = value.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise InvalidSchema(f"Invalid schema: Invalid or no size of {made.name}")
    made.size = size
    return made


def _texts(value: object, what: str) -> tuple[str, ...]:
    if not isinstance(value, Iterable) or isinstance(value, str | dict):
        raise InvalidSchema(f"Invalid schema: {what} is no list of names")
    found = tuple(value)
    if not all(isinstance(each, str) for each in found):
        raise InvalidSchema(f"Invalid schema: {what} is no list of names")
    return found


_NAMED_READERS = {"record": _record, "error": _record, "enum": _enum, "fixed": _fixed}
