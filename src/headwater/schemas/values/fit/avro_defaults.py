"""What fields are that a value does not have: their defaults, as a schema of Avro says them, for `fit.avro`.

A default of a record may leave to the defaults of its fields what is in it. So a schema of a few hundred
bytes can say a value of millions of parts (each of two that are each of two …): no more than
`DEFAULT_PARTS_MAX` are made.
"""

from __future__ import annotations

from collections.abc import Mapping

from fastavro.read import LOGICAL_READERS

from headwater.schemas.bounds import DEFAULT_PARTS_MAX
from headwater.schemas.values.allowance import COMPARED, SEARCHED
from headwater.schemas.values.avro_types import Kind, branch_name, named_in, settled
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.header import Json
from headwater.schemas.values.scalars import REFUSED, primitive, sized

_NONE = object()
TOO_MANY = f"the defaults of its fields are more than {DEFAULT_PARTS_MAX:,} values, all together"


class Defaults:
    """`named`: the types of the schema that have names. For one value, or for one schema."""

    def __init__(self, named: Mapping[str, Kind]) -> None:
        self._named = named
        self._left = DEFAULT_PARTS_MAX

    def settle(self) -> None:
        """Every field's default, in the schema itself, as a reader is to find it: fastavro hands it out so.

        One that is no value of its field stays as it is. Raises ValueError where they are too many."""
        fields = [each for kind in self._named.values() for each in kind.get("fields", ())]
        made = [self._settled(each) for each in fields]  # all by the schema as it was
        for field, default in zip(fields, made, strict=True):
            if default is not _NONE:
                field["default"] = default

    def _settled(self, field: Kind) -> Json:
        if "default" not in field:
            return _NONE
        try:
            made = self.of(field["default"], field["type"], field["name"])
            return self._as_read(made, field["type"])
        except (NotOfItsSchema, RecursionError) as error:
            if self._left < 0 or isinstance(error, RecursionError):
                raise ValueError(TOO_MANY) from None
            return _NONE

    def _as_read(self, value: Json, kind: Kind) -> Json:
        kind = settled(kind, self._named)
        if isinstance(kind, list):
            name, inner = value
            return self._as_read(inner, next(each for each in kind if branch_name(each) == name))
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

    def of(self, value: Json, kind: Kind, where: str) -> Json:
        """As a schema has it: bytes are letters, logical types what they are made of, no branch is named.

        Raises NotOfItsSchema."""
        self._left -= 1
        if self._left < 0:
            raise NotOfItsSchema(TOO_MANY)
        kind = settled(kind, self._named)
        if isinstance(kind, list):
            return self._of_union(value, kind, where)
        name = kind if isinstance(kind, str) else kind["type"]
        if name == "enum":
            self._left -= len(kind["symbols"]) // COMPARED
        if name in ("record", "error") and isinstance(value, dict):
            self._left -= len(kind["fields"]) // SEARCHED
            return {
                each["name"]: self.of(
                    value[each["name"]] if each["name"] in value else each["default"],
                    each["type"],
                    f"{where}.{each['name']}",
                )
                for each in kind["fields"]
                if each["name"] in value or "default" in each
            }
        if name == "array" and isinstance(value, list):
            return [self.of(each, kind["items"], where) for each in value]
        if name == "map" and isinstance(value, dict):
            return {key: self.of(each, kind["values"], where) for key, each in value.items()}
        try:
            if name in ("bytes", "fixed"):
                return sized(value.encode("latin-1"), name, kind)
            return primitive(value, name, kind)
        except REFUSED:
            raise NotOfItsSchema(
                f"the field {where} is missing, and its default is no {name}"
            ) from None

    def _of_union(self, value: Json, kinds: list[Kind], where: str) -> Json:
        refused: NotOfItsSchema | None = None
        for kind in kinds:
            try:
                return branch_name(kind), self.of(value, kind, where)
            except NotOfItsSchema as error:
                refused = refused or error
        raise refused or NotOfItsSchema(f"the field {where} is missing")


def settle(schema: Kind) -> None:
    """Raises ValueError."""
    Defaults(named_in(schema)).settle()
