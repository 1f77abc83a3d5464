"""JSON Schemas of topics: what is appended at the edges must fit.

    [edges.topics.orders]
    schema = "schemas/order.json"        # below the project's folder; formats are checked too

Called by `http_in`, hooks and bridges: `Schemas.of(context)`, then `complaint(topic, value)`. Only the edges
look: other clients of the log write what they like. Nothing is fetched: what a schema refers to must be in
its file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import msgspec

from headwater.edges.errors import BadEdges

if TYPE_CHECKING:
    from headwater.edges.context import Context

COMPLAINTS_MOST = 5
CHARACTERS_MOST = 300
_SETTINGS = ("schema",)
_OWN = "urn:headwater:schema"


def check(name: str, section: Mapping[str, Any]) -> list[str]:
    """[edges.topics.NAME]: a sentence for each mistake; the file itself is read at the start."""
    said = [f"has no setting {each!r}; there is schema" for each in section if each != "schema"]
    if not isinstance(section.get("schema"), str) or not section["schema"]:
        said.append('lacks schema = "FILE", a JSON Schema')
    return said


class Schema:
    """One schema, for single values and for many at once."""

    def __init__(self, document: Any) -> None:
        """Raises ValueError."""

        def own_only(uri: str) -> Any:
            if uri == _OWN:
                return document
            raise ValueError(f"{uri} lies elsewhere, and nothing is fetched: put it under $defs")

        self._one = jsonschema_rs.validator_for(document, retriever=own_only, validate_formats=True)
        # A reference, so that references within the schema still mean places within it.
        many: dict[str, Any] = {"type": "array", "items": {"$ref": _OWN}}
        if isinstance(document, dict) and "$schema" in document:
            many["$schema"] = document["$schema"]
        self._many = jsonschema_rs.validator_for(many, retriever=own_only, validate_formats=True)

    def complaint(self, meant: Any) -> str | None:
        """What does not fit and where; None where all does."""
        try:
            if self._one.is_valid(meant):
                return None
            errors = list(self._one.iter_errors(meant))
        except ValueError as error:
            return str(error)[:CHARACTERS_MOST]  # a number that JSON has, and the checker has not
        shown = [_told(error) for error in errors[:COMPLAINTS_MOST]]
        if len(errors) > COMPLAINTS_MOST:
            shown.append(f"and {len(errors) - COMPLAINTS_MOST} more")
        return "; ".join(shown)

    def complaints(self, meant: Sequence[Any]) -> dict[int, str]:
        """Index → what does not fit. One call, where all do."""
        try:
            if self._many.is_valid(list(meant)):
                return {}
        except ValueError:
            pass
        found = {index: self.complaint(each) for index, each in enumerate(meant)}
        return {index: said for index, said in found.items() if said is not None}


class Schemas:
    """Of all topics that have one."""

    def __init__(self, sections: Mapping[str, Mapping[str, Any]], folder: Path) -> None:
        self._schemas = {
            topic: _loaded(topic, folder / section["schema"]) for topic, section in sections.items()
        }

    @classmethod
    def of(cls, context: Context) -> Schemas:
        """Raises BadEdges where one cannot be used."""
        folder = context.project.folder if context.project is not None else Path()
        return cls(context.edges.topics, folder)

    def get(self, topic: str) -> Schema | None:
        return self._schemas.get(topic)

    def complaint(self, topic: str, value: bytes | None) -> str | None:
        """Why `value` is not for this topic; None where it is, or the topic has no schema."""
        schema = self._schemas.get(topic)
        if schema is None or value is None:
            return None
        try:
            meant = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            return f"it is no JSON: {error}"
        return schema.complaint(meant)


def _loaded(topic: str, path: Path) -> Schema:
    hint = f"see schema = … of [edges.topics.{topic}]"
    try:
        return Schema(json.loads(path.read_bytes()))
    except OSError as error:
        raise BadEdges(f"{path}: {error.strerror or error}", hint=hint) from None
    except ValueError as error:
        raise BadEdges(f"{path} is no JSON Schema: {error}", hint=hint) from None


def _told(error: jsonschema_rs.ValidationError) -> str:
    where = "".join(f"/{each}" for each in error.instance_path) or "the value"
    said = f"{where}: {error.message}"
    return said if len(said) <= CHARACTERS_MOST else said[:CHARACTERS_MOST] + "…"
