"""Logical types of a writer's Avro schema as its reader has them; pure.

What is written are numbers and bytes, and what they mean is said by who reads: a long that became a time is
read as the time, and a time that became a long as the number. Asked by `avro`, and by Spark's source for its
columns, where values are read as another schema than their own.
"""

from __future__ import annotations

import copy
from typing import NamedTuple

from headwater.schemas.values.avro_types import Kind, named_in
from headwater.schemas.values.moments import logical_of

_WIDER = {"int": ("long", "float", "double"), "long": ("float", "double"),
          "bytes": ("string",), "string": ("bytes",)}  # fmt: skip
_SAYING = ("logicalType", "precision", "scale")
_SCHEMA = ("record", "error", "array", "map", "enum", "null")


def reinterpreted(written: Kind, read_as: Kind) -> Kind:
    """A copy of the writer's schema, as fastavro has parsed it; with no reader it is the schema itself."""
    if read_as is None:
        return written
    made = copy.deepcopy(written)
    return _Pairs(made, read_as).made(made, read_as)


class _Pairs:
    """Types of the writer's, changed in place, each with the reader's that it is read as."""

    def __init__(self, written: Kind, read_as: Kind) -> None:
        self._written, self._known = named_in(written), named_in(read_as)
        self._seen: set[str] = set()
        self._branches: dict[int, dict[tuple[str, str], _Branch]] = {}
        """Of the reader's unions, each by its type and each of its names."""

    def made(self, written: Kind, read_as: Kind) -> Kind:
        """What stands in the type's place."""
        if isinstance(written, list):
            written[:] = [self.made(each, read_as) for each in written]
            return written
        own = _defined(written, self._written)
        known = self._branch(own, read_as)
        if known is None:
            return written
        kind = _type_of(own)
        if kind in ("record", "error"):
            self._record(own, known)
        elif kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            own[inner] = self.made(own[inner], known[inner])
        elif kind not in _SCHEMA and logical_of(own) != logical_of(known):
            made = _meaning(own, known)
            return written if isinstance(written, str) and kind == "fixed" else made
        return written

    def _record(self, written: Kind, read_as: Kind) -> None:
        if written["name"] in self._seen:
            return
        self._seen.add(written["name"])
        fields = {each["name"]: each for each in written["fields"]}
        for known in read_as["fields"]:
            names = (known["name"], *known.get("aliases", ()))
            own = next((fields[name] for name in names if name in fields), None)
            if own is not None:
                own["type"] = self.made(own["type"], known["type"])

    def _branch(self, written: Kind, read_as: Kind) -> Kind | None:
        if (known := self._branches.get(id(read_as))) is None:
            known = self._branches[id(read_as)] = {}
            for place, each in enumerate(read_as if isinstance(read_as, list) else [read_as]):
                own = _defined(each, self._known)
                for name in _names_of(own):
                    known.setdefault((_type_of(own), name), _Branch(place, own))
        kind, (name, *_) = _type_of(written), _names_of(written)
        if (same := known.get((kind, name))) is not None:
            return same.kind
        wider = [known[each, ""] for each in _WIDER.get(kind, ()) if (each, "") in known]
        return min(wider, key=lambda each: each.place).kind if wider else None


class _Branch(NamedTuple):
    place: int
    kind: Kind


def _meaning(written: Kind, read_as: Kind) -> Kind:
    """A number or bytes with what the reader says that they are; a fixed is changed in place."""
    kind, known, means = _type_of(written), _type_of(read_as), logical_of(read_as)
    made = written if kind == "fixed" else {"type": kind}
    for each in _SAYING:
        made.pop(each, None)
    if means in (None, "uuid") or (kind != known and kind != "int"):
        return made  # a text is one, whether or not it is a UUID
    made["type"] = known  # an int is written as a long is
    made.update({each: read_as[each] for each in _SAYING if each in read_as})
    return made


def _type_of(kind: Kind) -> str:
    return str(kind["type"] if isinstance(kind, dict) else kind)


def _defined(kind: Kind, named: dict[str, Kind]) -> Kind:
    return named.get(kind, kind) if isinstance(kind, str) else kind


def _names_of(kind: Kind) -> list[str]:
    """Without their namespaces; its own first."""
    if not isinstance(kind, dict) or "name" not in kind:
        return [""]
    return [_bare(kind["name"]), *map(_bare, kind.get("aliases", ()))]


def _bare(name: str) -> str:
    return name.rpartition(".")[2]
