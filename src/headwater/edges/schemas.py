"""JSON Schemas of topics: what is appended at the edges must fit.

    [edges.topics.orders]
    schema = "schemas/order.json"        # below the project's folder; formats are checked too

    [edges.topics.payments]
    subject = "payments-value"           # the registry's: JSON comes in, and is stored as the subject says

Called by `http_in`, hooks and bridges: `Schemas.of(context)`, then `complaint(topic, value)`. Only the edges
look: other clients of the log write what they like. Nothing is fetched: what a schema refers to must be in
its file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import msgspec

from headwater import json_size
from headwater.errors import nearest
from headwater.project.mistakes import BadProject
from headwater.schemas.address import registry_of
from headwater.schemas.client import shared
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.json_schema import nodes, steps
from headwater.schemas.lookup import REGISTRY, RegistryLookup, lookup_beside
from headwater.schemas.values.codecs import Codecs
from headwater.schemas.values.errors import NotOfItsSchema, SchemaNotFound
from headwater.schemas.values.header import Json
from headwater.value_forms import is_text, is_topic

if TYPE_CHECKING:
    from headwater.edges.context import Context

COMPLAINTS_MOST = 5
LISTED_STEPS_MOST = 50_000
"""Up to which all complaints of a value are made, to show the first of them."""
CHARACTERS_MOST = 300
_SETTINGS = ("schema", "subject")
_OWN = "urn:headwater:schema"


def check(name: str, section: Mapping[str, Any]) -> list[str]:
    """[edges.topics.NAME]: a sentence for each mistake; of the file itself, `file_complaint`."""
    said = [] if is_topic(name) else [f"{name!r} is no name that a topic can have"]
    said += [
        f"has no setting {each!r}{nearest(each, _SETTINGS)}"
        for each in section
        if each not in _SETTINGS
    ]
    given = [section[each] for each in _SETTINGS if each in section]
    if len(given) != 1 or not is_text(given[0]):
        said.append('wants schema = "FILE", a JSON Schema, or subject = "NAME", of the registry')
    return said


def file_complaint(path: Path) -> str | None:
    """Why the edges could not use a schema's file; None: they can."""
    try:
        _loaded("", path)
    except BadProject as error:
        return error.sentence
    return None


class Schema:
    """One schema, for single values and for many at once."""

    def __init__(self, document: Any) -> None:
        """Raises ValueError."""

        def own_only(uri: str) -> Any:
            if uri == _OWN:
                return document
            raise ValueError(f"{uri} lies elsewhere, and nothing is fetched: put it under $defs")

        options = jsonschema_rs.FancyRegexOptions(steps.BACKTRACKS_MAX)
        self._one = jsonschema_rs.validator_for(
            document, retriever=own_only, validate_formats=True, pattern_options=options
        )
        # A reference, so that references within the schema still mean places within it.
        many: dict[str, Any] = {"type": "array", "items": {"$ref": _OWN}}
        if isinstance(document, dict) and "$schema" in document:
            many["$schema"] = document["$schema"]
        self._many = jsonschema_rs.validator_for(
            many, retriever=own_only, validate_formats=True, pattern_options=options
        )
        try:
            self._steps = steps.Steps(nodes.rooted(document, {}))
        except InvalidSchema as error:
            raise ValueError(error.sentence) from None

    is_stored_otherwise = False

    def stored(self, value: bytes | None) -> bytes | None:
        """A value that fits, as the topic has it: as it was sent."""
        return value

    def address(self) -> str | None:
        """Where everybody may read the schema; None: nowhere."""
        return None

    def complaint(self, meant: Json, text: bytes | None = None) -> str | None:
        """What does not fit and where; None where all does. `text`: what was sent, and is to be stored."""
        try:
            work = self._work(meant, text)
            if self._one.is_valid(meant):
                return None
            if work > LISTED_STEPS_MOST:
                self._one.validate(meant)
            errors = list(self._one.iter_errors(meant))
        except jsonschema_rs.ValidationError as error:
            return f"{_told(error)}; the value is too large to be told all"
        except ValueError as error:
            return str(error)[
                :CHARACTERS_MOST
            ]  # also a number that JSON has, and the checker has not
        shown = [_told(error) for error in errors[:COMPLAINTS_MOST]]
        if len(errors) > COMPLAINTS_MOST:
            shown.append(f"and {len(errors) - COMPLAINTS_MOST} more")
        return "; ".join(shown)

    def _work(self, meant: Json, text: bytes | None) -> int:
        """Raises ValueError."""
        return self._steps.check(meant, None if text is None else len(text))

    def complaints(self, meant: Sequence[Json], texts: Sequence[bytes] = ()) -> dict[int, str]:
        """Index → what does not fit. One call, where all do."""
        sent: Sequence[bytes | None] = texts or [None] * len(meant)
        pairs = list(zip(meant, sent, strict=True))
        try:
            work = sum(self._work(*each) for each in pairs)
            if work <= steps.STEPS_MAX and self._many.is_valid(list(meant)):
                return {}
        except ValueError:
            pass
        found = {index: self.complaint(*each) for index, each in enumerate(pairs)}
        return {index: said for index, said in found.items() if said is not None}


class Subject:
    """The latest schema of a registry's subject: JSON comes in, and is stored as Avro, Protobuf or JSON."""

    is_stored_otherwise = True

    def __init__(self, name: str, codecs: Codecs) -> None:
        self._name, self._codecs = name, codecs

    def stored(self, value: bytes | None) -> bytes | None:
        """Raises NotOfItsSchema, SchemaNotFound."""
        return None if value is None else self._codecs.encode_text(self._name, value)

    def address(self) -> str | None:
        """Of the latest one, at the registry that is asked; None where only its topic is read."""
        found, lookup = self._codecs.lookup.latest(self._name), self._codecs.lookup
        if found is None or not isinstance(lookup, RegistryLookup):
            return None
        return f"{lookup.client.address}/schemas/ids/{found.id}/schema"

    def complaint(self, meant: Json, text: bytes | None = None) -> str | None:
        """By what was sent: what it means to a parser may have lost digits."""
        if text is not None and (why := json_size.many(text)) is not None:
            return why
        try:
            self.stored(text)
        except (NotOfItsSchema, SchemaNotFound) as error:
            return error.sentence[:CHARACTERS_MOST]
        return None

    def complaints(self, meant: Sequence[Json], texts: Sequence[bytes] = ()) -> dict[int, str]:
        found = {index: self.complaint(None, each) for index, each in enumerate(texts)}
        return {index: said for index, said in found.items() if said is not None}


class Schemas:
    """Of all topics that have one."""

    def __init__(
        self,
        sections: Mapping[str, Mapping[str, Any]],
        folder: Path,
        codecs: Callable[[], Codecs] | None = None,
    ) -> None:
        """`codecs`: those of a registry, where a topic has a subject."""
        self._schemas: dict[str, Schema | Subject] = {
            topic: Subject(section["subject"], codecs())
            if "subject" in section and codecs is not None
            else _loaded(topic, folder / section["schema"])
            for topic, section in sections.items()
        }

    @classmethod
    def of(cls, context: Context) -> Schemas:
        """Raises BadProject where one cannot be used."""
        folder = context.project.folder if context.project is not None else Path()
        return cls(context.edges.topics, folder, lambda: _codecs(context))

    def get(self, topic: str) -> Schema | Subject | None:
        return self._schemas.get(topic)

    def complaint(self, topic: str, value: bytes | None) -> str | None:
        """Why `value` is not for this topic; None where it is, or the topic has no schema."""
        schema = self._schemas.get(topic)
        if schema is None or value is None:
            return None
        if (why := json_size.many(value)) is not None:
            return why
        try:
            meant = msgspec.json.decode(value)
        except (msgspec.DecodeError, RecursionError, ValueError) as error:
            return f"it is no JSON: {error}"
        return schema.complaint(meant, value)

    def stored(self, topic: str, value: bytes | None) -> bytes | None:
        """A value that fits, as the topic has it."""
        schema = self._schemas.get(topic)
        return value if schema is None else schema.stored(value)


def _codecs(context: Context) -> Codecs:
    """By the project's registry, or the one of the environment, or `_schemas` of the log itself."""
    section = None if context.project is None else context.project.schemas
    if section is not None and not os.environ.get(REGISTRY):
        return Codecs(RegistryLookup(shared(registry_of(section))))
    return Codecs(lookup_beside(context.log))


def _loaded(topic: str, path: Path) -> Schema:
    hint = f"see schema = … of [edges.topics.{topic}]"
    try:
        return Schema(json.loads(path.read_bytes()))
    except OSError as error:
        raise BadProject(f"{path}: {error.strerror or error}", hint=hint) from None
    except (ValueError, RecursionError) as error:
        raise BadProject(f"{path} is no JSON Schema: {error}", hint=hint) from None


def _told(error: jsonschema_rs.ValidationError) -> str:
    where = "".join(f"/{each}" for each in error.instance_path) or "the value"
    said = f"{where}: {error.message}"
    return said if len(said) <= CHARACTERS_MOST else said[:CHARACTERS_MOST] + "…"
