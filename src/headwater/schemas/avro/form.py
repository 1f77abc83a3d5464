"""Avro types as JSON again: the canonical text, as Avro's Java library prints it, and the normalised one;
pure.

A named type is written out where it first stands, and named after that; one of a reference is only named.
Normalised, names are whole, attributes sorted and documents left as they are: two texts that differ only
in how they were written down become one.
"""

from __future__ import annotations

import json

from headwater.schemas.avro.types import MISSING, NAMED, PRIMITIVES, Field, Type

_KINDS = (*PRIMITIVES, *NAMED, "array", "map", "union")


def text_of(kind: Type, *, is_normalized: bool = False, is_whole: bool = False) -> str:
    """`is_whole`: with the types of references written out."""
    found = _Writer(is_normalized, is_whole).type(kind, "")
    return json.dumps(found, separators=(",", ":"), ensure_ascii=False)


class _Writer:
    def __init__(self, is_normalized: bool, is_whole: bool) -> None:
        self._is_normalized, self._is_whole = is_normalized, is_whole
        self._written: set[str] = set()

    def type(self, kind: Type, namespace: str) -> object:
        if kind.kind == "union":
            return [self.type(each, namespace) for each in kind.branches]
        if kind.name:
            return self._named(kind, namespace)
        if kind.item is None:
            return {"type": kind.kind, **self._more(kind.more)} if kind.more else kind.kind
        inner = "items" if kind.kind == "array" else "values"
        return {"type": kind.kind, inner: self.type(kind.item, namespace), **self._more(kind.more)}

    def _named(self, kind: Type, namespace: str) -> object:
        if (kind.is_imported and not self._is_whole) or kind.name in self._written:
            is_near = kind.namespace == namespace and not self._is_normalized
            # A record may be called string, in a namespace of its own.
            return kind.simple_name if is_near and kind.simple_name not in _KINDS else kind.name
        self._written.add(kind.name)
        made: dict[str, object] = {"type": kind.kind}
        if self._is_normalized:
            made["name"] = kind.name
            if namespace and not kind.namespace:
                made["namespace"] = ""  # a name without one would get that of what is around it
        else:
            made["name"] = kind.simple_name
            if kind.namespace != namespace:
                made["namespace"] = kind.namespace
        if kind.doc is not None:
            made["doc"] = kind.doc
        if kind.kind == "record":
            made["fields"] = [self._field(each, kind.namespace) for each in kind.fields]
        elif kind.kind == "enum":
            made["symbols"] = kind.symbols
            if kind.default is not MISSING:
                made["default"] = kind.default
        else:
            made["size"] = kind.size
        made.update(self._more(kind.more))
        if kind.aliases:
            made["aliases"] = self._aliases(kind)
        return made

    def _aliases(self, kind: Type) -> list[str]:
        if self._is_normalized:
            return sorted(kind.aliases)
        near = f"{kind.namespace}." if kind.namespace else ""
        return [
            each[len(near) :] if near and each.startswith(near) and "." not in each[len(near) :] else each
            for each in kind.aliases
        ]  # fmt: skip

    def _field(self, field: Field, namespace: str) -> dict[str, object]:
        made: dict[str, object] = {"name": field.name, "type": self.type(field.type, namespace)}
        if field.doc is not None:
            made["doc"] = field.doc
        if field.default is not MISSING:
            made["default"] = field.default
        if field.order is not None:
            made["order"] = field.order
        if field.aliases:
            made["aliases"] = sorted(field.aliases) if self._is_normalized else list(field.aliases)
        made.update(self._more(field.more))
        return made

    def _more(self, more: dict[str, object]) -> dict[str, object]:
        return {name: _sorted(more[name]) for name in sorted(more)} if self._is_normalized else more


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
