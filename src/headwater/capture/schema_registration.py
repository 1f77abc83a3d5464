"""What a capture knows of its tables, told to a registry: `encoders` registers each shape before its rows.

Subjects are TOPIC-key and TOPIC-value. A shape that was registered before keeps its id, so that a run that
reads a piece of history again names the same schemas. A change that the subject's level of compatibility
forbids stops the capture before a row of it is written, and says which.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from headwater.capture.errors import CaptureError, Interrupted
from headwater.capture.evolution import changes
from headwater.client.errors import BrokerUnreachable
from headwater.schemas.client import shared
from headwater.schemas.errors import RegistryError
from headwater.schemas.model import AVRO, JSON, PROTOBUF, Schema

_CONFLICT = 409
_SHOWN = 600


class SchemaRefused(CaptureError):
    """The registry does not take a table's new schema; what to do stands in the hint."""


class Registration:
    """Of one topic, at one moment of its table."""

    def __init__(self, url: str, topic: str, kind: str = AVRO) -> None:
        self._client, self._topic, self._kind = shared(url), topic, kind

    def id_of(self, part: str, text: str) -> int:
        """`part`: key or value. Raises SchemaRefused, Interrupted."""
        subject = f"{self._topic}-{part}"
        try:
            return self._client.register(subject, Schema(text, self._kind))
        except BrokerUnreachable as error:
            raise Interrupted(error.sentence, hint=error.hint) from None
        except RegistryError as error:
            if error.status >= 500:
                raise Interrupted(f"the registry: {error.sentence}") from None
            raise self._refused(part, text, error) from None

    def texts(self, part: str) -> list[str]:
        """Of all versions that there were, the oldest first."""
        subject = f"{self._topic}-{part}"
        try:
            numbers = self._client.versions(subject, deleted=True)
            found = [self._client.version(subject, each, deleted=True) for each in numbers]
        except BrokerUnreachable as error:
            raise Interrupted(error.sentence, hint=error.hint) from None
        except RegistryError as error:
            if error.status == 404:
                return []
            raise Interrupted(f"the registry: {error.sentence}") from None
        return [each.schema.text for each in found if each.schema.kind == self._kind]

    def _refused(self, part: str, text: str, error: RegistryError) -> SchemaRefused:
        subject = f"{self._topic}-{part}"
        if error.status != _CONFLICT:
            return SchemaRefused(
                f"the registry does not take the schema of {subject}: {error.sentence[:_SHOWN]}",
                hint="see `headwater schemas list`, and what this capture's token may write",
            )
        before = self.texts(part)
        said = _said(columns_of(before[-1], self._kind), columns_of(text, self._kind))
        return SchemaRefused(
            f"the table behind {self._topic} has changed ({said}), and the level of {subject} forbids that: "
            f"{error.sentence[:_SHOWN]}",
            hint="nothing is lost: the capture goes on from here once it is allowed. Undo the change in the "
            f"database, or allow it with `headwater schemas compat NONE --subject {subject}`, start the "
            "capture, and set the level back; a column that may be NULL can always be added",
        )


def columns_of(text: str, kind: str) -> dict[str, str]:
    """The columns of a table in one of its schemas, each with its type."""
    if kind == PROTOBUF:
        from headwater.schemas.protobuf import compiler, printer

        messages = compiler.compiled(text, ()).file[-1].message_type
        row = next((each for each in messages if each.name == "Value"), messages[0])
        return {
            each.name: printer.type_name(each) + ("" if each.proto3_optional else " NOT NULL")
            for each in row.field
        }
    document = json.loads(text)
    if kind == JSON:
        row = document["properties"].get("after", {"oneOf": [None, document]})["oneOf"][1]
        needed = row.get("required", ())
        return {
            name: json.dumps(each) + (" NOT NULL" if name in needed else "")
            for name, each in row["properties"].items()
        }
    fields = {each["name"]: each["type"] for each in document["fields"]}
    if "before" in fields and isinstance(fields["before"], list):
        fields = {each["name"]: each["type"] for each in fields["before"][1]["fields"]}
    return {
        name: json.dumps(each) + ("" if isinstance(each, list) else " NOT NULL")
        for name, each in fields.items()
    }


def _said(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    found = changes(old, new)
    parts = [f"{name} was added, and is {_null(new[name])}" for name in found["added"]]
    parts += [f"{name} was dropped, and was {_null(old[name])}" for name in found["dropped"]]
    parts += [f"{name} was {old[name]}, and is {new[name]}" for name in found["retyped"]]
    return "; ".join(parts)[:_SHOWN] or "its columns are the same"


def _null(kind: str) -> str:
    return "NOT NULL without a default" if kind.endswith(" NOT NULL") else "NULL or a value"
