"""A schema as clients send it, and what a type of schema has to know of it; pure.

`kinds` finds the type by its name; each has a `parse` that returns a `Parsed` or raises InvalidSchema.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

AVRO, PROTOBUF, JSON = "AVRO", "PROTOBUF", "JSON"


class Reference(NamedTuple):
    """`name` is what the text calls it: a full name, an import, the URI of a $ref."""

    name: str
    subject: str
    version: int

    def as_json(self) -> dict[str, object]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True)
class Schema:
    """`metadata` and `rules` are kept and given back as they came (`metadata`, `ruleSet`)."""

    text: str
    kind: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: str | None = None
    rules: str | None = None
    """Both as JSON."""

    @property
    def fingerprint(self) -> bytes:
        """What makes two schemas of a context the same, with one id. The text has to be canonical."""
        said: list[object] = [self.kind, self.text, [tuple(each) for each in self.references]]
        if self.metadata or self.rules:
            said += [self.metadata, self.rules]
        return hashlib.md5(json.dumps(said).encode(), usedforsecurity=False).digest()

    @property
    def guid(self) -> str:
        return str(uuid.UUID(bytes=self.fingerprint))


class Imported(NamedTuple):
    """A schema that another one refers to, by the name that it uses; those it needs itself stand before
    it.
    """

    name: str
    text: str


@dataclass(frozen=True)
class Difference:
    """Why data of the one schema cannot be read by the other. `{new}` and `{old}` stand in the sentence."""

    type: str
    path: str
    sentence: str
    more: str | None = None

    def said(self, reader: str, writer: str) -> str:
        """In Confluent's form; who reads is the new schema or, forwards, the old one."""
        text = self.sentence.replace("{reader}", reader).replace("{writer}", writer)
        if self.more is None:
            return f'{{errorType:"{self.type}", description:"{text}"}}'
        return f"{{errorType:'{self.type}', description:'{text}', additionalInfo:'{self.more}'}}"


class Parsed(Protocol):
    """A schema that was understood."""

    kind: str

    @property
    def canonical(self) -> str:
        """The text that is kept and handed out."""
        ...

    @property
    def normalized(self) -> str:
        """The one text of all that mean the same (`normalize=true`)."""
        ...

    @property
    def serialized(self) -> str:
        """The text, in the form in which programs exchange it (`format=serialized`)."""
        ...

    @property
    def whole(self) -> str:
        """The canonical text of one without references that means the same, where there can be one."""
        ...

    def unreadable(self, written: Self) -> list[Difference]:
        """Why whoever reads by this schema cannot read what was written by the other; of the same kind."""
        ...


class Parse(Protocol):
    def __call__(self, text: str, imported: Sequence[Imported], *, is_new: bool) -> Parsed: ...
