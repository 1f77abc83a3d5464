"""Whether one Avro schema can read what another has written: schema resolution, rule by rule; pure.

AMBIGUOUS_ALIAS        a name and its aliases are of one written field, and of no other field of the reader
READER_FIELD_MISSING…  a field that only the reader has needs a default     (by its name or an alias)
TYPE_MISMATCH          int → long, float, double; long → float, double; float → double; string ↔ bytes
NAME_MISMATCH          records, enums and fixed have one name, or the reader an alias
FIXED_SIZE_MISMATCH    of one size
MISSING_ENUM_SYMBOLS   the reader knows every symbol, or has a default
MISSING_UNION_BRANCH   every branch of the writer's union can be read
                       where several branches or fields fit by their names and aliases, libraries differ in
                       which they take: each of them has to read what was written
LOGICAL_TYPE_MISMATCH  of the specification, and not of Avro's libraries: decimals of another scale or of
                       fewer digits, times of another unit: they would be read, as another value
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from headwater.schemas.avro.types import MISSING, Field, Type
from headwater.schemas.bounds import DIFFERENCES_MAX
from headwater.schemas.effort import Effort
from headwater.schemas.model import Difference

_PROMOTED = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "bytes": ("string",),
    "string": ("bytes",),
}


def differences(reader: Type, writer: Type) -> list[Difference]:
    comparison = _Comparison({}, Effort())
    comparison.compare(reader, writer, "/")
    return comparison.found


class _Comparison:
    def __init__(self, branches: dict[tuple[int, int], bool], effort: Effort) -> None:
        self.found: list[Difference] = []
        self._effort = effort
        self._seen: set[tuple[int, int]] = set()
        """Records that are being compared: a recursive type comes back to itself."""
        self._branches = branches
        """Pairs of branches, and whether the one reads the other; while that is looked at, that it does."""

    def compare(self, reader: Type, writer: Type, path: str) -> None:
        self._effort.step()
        if len(self.found) >= DIFFERENCES_MAX:
            return
        if writer.kind == "union":
            self._of_union(reader, writer, path)
        elif reader.kind == "union":
            if not self._is_branch(reader, writer):
                self._say_branch(path, writer)
        elif reader.kind != writer.kind:
            if writer.kind not in _PROMOTED.get(reader.kind, ()):
                self._say_type(path, reader, writer)
            else:
                self._logical(reader, writer, path)
        elif reader.name and not _same_name(reader, writer):
            self._say("NAME_MISMATCH", f"{path.rstrip('/')}/name",
                      "The name of the schema has changed (path '{path}')",
                      f"expected: {writer.name}")  # fmt: skip
        else:
            self._of_same_kind(reader, writer, path)

    def _of_same_kind(self, reader: Type, writer: Type, path: str) -> None:
        here = path.rstrip("/")
        if reader.kind == "record":
            pair = (id(reader), id(writer))
            if pair not in self._seen:
                self._seen.add(pair)
                self._fields(reader, writer, f"{here}/fields")
        elif reader.kind == "enum":
            known = set(reader.symbols)
            missing = [each for each in writer.symbols if each not in known]
            if missing and reader.default is MISSING:
                said = f"[{', '.join(missing)}]"
                self._say("MISSING_ENUM_SYMBOLS", f"{here}/symbols",
                          f"The {{reader}} schema is missing enum symbols '{said}' at path '{{path}}' "
                          "in the {writer} schema", said)  # fmt: skip
        elif reader.kind == "fixed" and reader.size != writer.size:
            self._say("FIXED_SIZE_MISMATCH", f"{here}/size",
                      "The size of FIXED type field at path '{path}' in the {reader} schema does not "
                      "match with the {writer} schema",
                      f"expected: {writer.size}, found: {reader.size}")  # fmt: skip
        elif reader.item is not None and writer.item is not None:
            inner = "items" if reader.kind == "array" else "values"
            self.compare(reader.item, writer.item, f"{here}/{inner}")
        self._logical(reader, writer, path)

    def _of_union(self, reader: Type, writer: Type, path: str) -> None:
        here = path.rstrip("/")
        for number, each in enumerate(writer.branches):
            if reader.kind == "union":
                if not self._is_branch(reader, each):
                    self._say_branch(f"{here}/{number}", each)
            else:
                self.compare(reader, each, f"{here}/{number}" if here else f"/{number}")

    def _is_branch(self, union: Type, writer: Type) -> bool:
        """Whether it can be read, whichever of the branches that fit is taken."""
        fitting = [each for each in union.branches if _fits(each, writer)]
        same = [each for each in fitting if each.kind == writer.kind or each.name]
        return bool(fitting) and all(self._reads(each, writer) for each in same or fitting)

    def _reads(self, reader: Type, writer: Type) -> bool:
        """A branch: whether it can read all of the other, with nothing said of it."""
        pair = (id(reader), id(writer))
        if pair not in self._branches:
            before = len(self._branches)
            self._branches[pair] = True
            inside = _Comparison(self._branches, self._effort)
            inside.compare(reader, writer, "/")
            if inside.found:
                # What was found to be readable since may have been so only because this was taken to be.
                for later in [*self._branches][before:]:
                    if self._branches[later]:
                        del self._branches[later]
                self._branches[pair] = False
        return self._branches[pair]

    def _fields(self, reader: Type, writer: Type, path: str) -> None:
        known = {each.name: each for each in writer.fields}
        own = {each.name for each in reader.fields}
        meant = {each.name: _meant(each, own, known) for each in reader.fields}
        often = Counter(name for names in meant.values() for name in names)
        for number, field in enumerate(reader.fields):
            self._effort.step()
            names = meant[field.name]
            if len(names) > 1 or any(often[name] > 1 for name in names):
                self._say("AMBIGUOUS_ALIAS", f"{path}/{number}",
                          f"The field '{field.name}' at path '{{path}}' in the {{reader}} schema and its "
                          "aliases are not of exactly one field in the {writer} schema",
                          field.name)  # fmt: skip
            elif names:
                (name,) = names
                self.compare(field.type, known[name].type, f"{path}/{number}/type")
            elif field.default is MISSING:
                self._say("READER_FIELD_MISSING_DEFAULT_VALUE", f"{path}/{number}",
                          f"The field '{field.name}' at path '{{path}}' in the {{reader}} schema has no "
                          "default value and is missing in the {writer} schema", field.name)  # fmt: skip

    def _logical(self, reader: Type, writer: Type, path: str) -> None:
        is_text = {reader.kind, writer.kind} == {"bytes", "string"}
        becomes_text = is_text and "decimal" in (reader.logical, writer.logical)
        if not becomes_text and (reader.logical is None or writer.logical is None):
            return
        if becomes_text or reader.logical != writer.logical:
            self._say("LOGICAL_TYPE_MISMATCH", path,
                      "The logical type at path '{path}' in the {reader} schema is another than in the "
                      "{writer} schema, so its values would be read as others",
                      f"expected: {writer.logical}, found: {reader.logical}")  # fmt: skip
        elif reader.logical == "decimal":
            was, now = _digits(writer), _digits(reader)
            if was[1] != now[1] or now[0] < was[0]:
                self._say("LOGICAL_TYPE_MISMATCH", path,
                          "The decimal at path '{path}' in the {reader} schema has another scale or fewer "
                          "digits than in the {writer} schema",
                          f"expected: decimal({was[0]},{was[1]}), "
                          f"found: decimal({now[0]},{now[1]})")  # fmt: skip

    def _say_type(self, path: str, reader: Type, writer: Type) -> None:
        self._say("TYPE_MISMATCH", path,
                  "The type (path '{path}') of a field in the {reader} schema does not match with the "
                  "{writer} schema",
                  f"reader type: {reader.kind.upper()} not compatible with writer type: "
                  f"{writer.kind.upper()}")  # fmt: skip

    def _say_branch(self, path: str, writer: Type) -> None:
        self._say("MISSING_UNION_BRANCH", path,
                  "The {reader} schema is missing a type inside a union field at path '{path}' in the "
                  "{writer} schema",
                  f"reader union lacking writer type: {writer.kind.upper()}")  # fmt: skip

    def _say(self, kind: str, path: str, sentence: str, more: str) -> None:
        self.found.append(Difference(kind, path, sentence.replace("{path}", path), more))


def _same_name(reader: Type, writer: Type) -> bool:
    """By the name without its namespace, as Avro's libraries do, or by an alias of the reader."""
    return reader.simple_name == writer.simple_name or writer.name in reader.aliases


def _alike(reader: Type, writer: Type) -> bool:
    """By what fastavro goes by, too: an alias without its namespace."""
    aliases = (each.rpartition(".")[2] for each in reader.aliases)
    return _same_name(reader, writer) or writer.simple_name in aliases


def _meant(field: Field, own: set[str], known: Mapping[str, Field]) -> set[str]:
    """The written fields that some library would take for it: by its name, else by its aliases. `own`: the
    names of all fields beside it."""
    aliased = {name for name in field.aliases if name in known and name != field.name}
    if field.name not in known:
        return aliased
    return {field.name, *(aliased - own)}


def _fits(branch: Type, writer: Type) -> bool:
    """By its name or its type; what is inside is another question."""
    if branch.name and writer.name:
        return _alike(branch, writer)
    return branch.kind == writer.kind or writer.kind in _PROMOTED.get(branch.kind, ())


def _digits(kind: Type) -> tuple[int, int]:
    precision, scale = kind.more.get("precision"), kind.more.get("scale", 0)
    return (
        precision if isinstance(precision, int) else 0,
        scale if isinstance(scale, int) else 0,
    )
