"""One request as its handler sees it: what the path names, what the query says, the body, and who asks."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from headwater.edges.registry.access import ADMIN, READ, WRITE, Token
from headwater.edges.workers import LARGE_BYTES
from headwater.schemas import subjects
from headwater.schemas.bounds import check_depth, check_text
from headwater.schemas.changes import Registration
from headwater.schemas.errors import InvalidSchema, RegistryError, invalid_version
from headwater.schemas.model import AVRO, Schema
from headwater.schemas.records import Version, references_of
from headwater.schemas.state import State
from headwater.schemas.store import Store

VERSION_MAX = 2**31 - 1
VERSION = re.compile("[0-9]{1,12}")


@dataclass(frozen=True)
class Call:
    store: Store
    names: Mapping[str, str]
    """Of the path."""
    query: Mapping[str, str]
    body: Mapping[str, object]
    context: str
    """Of the path's beginning, `/contexts/.NAME`; else the default one."""
    token: Token | None
    """None: everybody may do everything here."""

    @property
    def state(self) -> State:
        return self.store.state

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        try:
            return int(self.query.get(name) or default)
        except ValueError:
            raise RegistryError(400, f"{name} is no number") from None

    def subject(self, way: str = READ) -> str:
        """The one that the path names, which the token reaches. Raises RegistryError."""
        found = subjects.qualified(self.context, self.names["subject"])
        self.must(way, found)
        return found

    def scope(self, way: str) -> str | None:
        """What a config or a mode is of: a subject, a context, or all."""
        if "subject" in self.names:
            found = self.names["subject"]
            named = found if found.startswith(":") else subjects.qualified(self.context, found)
            kept = subjects.normalized(named)
            self.must(
                way, kept or "*"
            )  # the default context (`:.:`) is where those of all are kept
            return kept or None
        self.must(way, "*")
        return None if self.context == subjects.DEFAULT else f":{self.context}:"

    def must(self, way: str, subject: str) -> None:
        if self.token is not None and not self.token.may(way, subject):
            raise self.refused(way, subject)

    def refused(self, way: str, what: str) -> RegistryError:
        """`what`: as the token's bearer has named it, and no more than that."""
        name = "" if self.token is None else self.token.name
        return RegistryError(40301, f"The token {name} may not {way} {what}: see [schemas.tokens]")

    def may_read(self, subject: str) -> bool:
        return self.token is None or self.token.may(READ, subject)

    def version(self) -> int:
        """Of the path; -1: the latest."""
        text = self.names["version"]
        if text == "latest" or text == "-1":
            return -1
        if not VERSION.fullmatch(text) or not 0 < int(text) <= VERSION_MAX:
            raise invalid_version(text[:100])
        return int(text)

    def registration(self, way: str) -> Registration:
        """What the body asks to register, to look up or to compare."""
        subject = self.subject(way)
        text, kind = self.body.get("schema"), self.body.get("schemaType") or AVRO
        references = references_of(self.body.get("references"))
        if not isinstance(text, str) or not text.strip():
            raise InvalidSchema("Empty schema")
        if not isinstance(kind, str) or references is None:
            raise RegistryError(422, "schemaType is a text, and references are a list of "
                                     '{"name", "subject", "version"}')  # fmt: skip
        for each in references:
            check_text(each.name)
            self.must(READ, subjects.qualified(subjects.context_of(subject), each.subject))
        return Registration(
            subject,
            Schema(text, kind.upper(), references, self._kept("metadata"), self._kept("ruleSet")),
            normalize=self.flag("normalize"),
            id=_given(self.body, "id"),
            version=_given(self.body, "version"),
        )

    def _kept(self, name: str) -> str | None:
        """As it came, within a schema's bounds: whoever reads it has to parse it. Raises RegistryError."""
        found = self.body.get(name)
        if found is None:
            return None
        text = json.dumps(found, ensure_ascii=False)
        check_text(text)
        check_depth(text, "[{", "]}", '"')
        return json.dumps(found, sort_keys=True)


def _given(body: Mapping[str, object], name: str) -> int:
    found = body.get(name)
    if found is None:
        return -1
    if not isinstance(found, int) or isinstance(found, bool):
        raise RegistryError(422, f"{name} is no number")
    return found


def as_json(version: Version, text: str | None = None) -> dict[str, object]:
    """A version as clients know it."""
    return {
        "subject": version.subject,
        "version": version.version,
        "id": version.id,
        "guid": version.schema.guid,
        **schema_json(version.schema, text),
    }


def schema_json(schema: Schema, text: str | None = None) -> dict[str, object]:
    made: dict[str, object] = {}
    if schema.kind != AVRO:
        made["schemaType"] = schema.kind
    if schema.references:
        made["references"] = [each.as_json() for each in schema.references]
    if schema.metadata is not None:
        made["metadata"] = parsed(schema.metadata)
    if schema.rules is not None:
        made["ruleSet"] = parsed(schema.rules)
    made["schema"] = schema.text if text is None else text
    return made


class ForAThread(Exception):
    """It is too much for where requests arrive."""


def parsed(text: str) -> object:
    """Raises ForAThread, where others would wait for it."""
    if len(text) > LARGE_BYTES:
        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise ForAThread
    return json.loads(text)


__all__ = ["ADMIN", "READ", "WRITE", "Call", "ForAThread", "as_json", "parsed", "schema_json"]
