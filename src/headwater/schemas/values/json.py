"""JSON behind five bytes: checked against its JSON Schema when written, and taken as it is when read."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from urllib.parse import quote, urljoin, urlsplit

from referencing.exceptions import Unresolvable

from headwater.json_size import many
from headwater.schemas.errors import InvalidSchema
from headwater.schemas.json_schema import nodes, steps
from headwater.schemas.json_schema.shapes import Node
from headwater.schemas.model import Imported
from headwater.schemas.values import exact
from headwater.schemas.values.errors import NotOfItsSchema
from headwater.schemas.values.header import Json

_SHOWN = 300
_BASE = "http://headwater.invalid/"
"""Of a schema without a name of its own: to it references are relative, as no text is to a `urn:`."""


class JsonCodec:
    kind = "json-schema"

    def __init__(self, text: str, imported: Sequence[Imported]) -> None:
        self._document = json.loads(text)
        self._imported = {each.name: json.loads(each.text) for each in imported}

    @cached_property
    def _validator(self) -> Json:
        try:
            import jsonschema_rs
        except ModuleNotFoundError:
            raise NotOfItsSchema(
                "values are checked by the package jsonschema-rs, which is not here",
                hint="pip install 'headwater[edges]'",
            ) from None

        document = _placed(self._document)
        folder = urljoin(urljoin(_BASE, _name_of(document)), ".")

        def known_only(uri: str) -> Json:
            try:  # what was checked when it was registered, and nothing of a similar name
                return _placed(self._root.resolver.lookup(uri.removeprefix(folder)).contents)
            except (Unresolvable, ValueError):
                raise ValueError(f"{uri} lies elsewhere, and nothing is fetched") from None

        return jsonschema_rs.validator_for(
            document,
            retriever=known_only,
            base_uri=_BASE,
            pattern_options=jsonschema_rs.FancyRegexOptions(steps.BACKTRACKS_MAX),
        )

    @cached_property
    def _root(self) -> Node:
        return nodes.rooted(self._document, self._imported)

    @cached_property
    def _steps(self) -> steps.Steps:
        return steps.Steps(self._root)

    def decode(self, body: bytes) -> Json:
        if (why := many(body)) is not None:
            raise NotOfItsSchema(why)
        try:
            return json.loads(body.decode())
        except (ValueError, RecursionError) as error:
            raise NotOfItsSchema(f"it is no JSON: {error}"[:_SHOWN]) from None

    def encode(self, value: Json) -> bytes:
        try:
            text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            data = text.encode()
        except (TypeError, ValueError, RecursionError) as refused:
            raise NotOfItsSchema(f"JSON has no such value: {refused}"[:_SHOWN]) from None
        self._check(value, len(text))
        return data

    def encode_text(self, text: str) -> bytes:
        """As it was sent, to the letter."""
        self._check(exact.loads(text, float), len(text))
        return text.encode()

    def _check(self, value: Json, letters: int | None = None) -> None:
        """`letters`: of its text. One complaint, as the library makes all of them at once where asked."""
        try:
            self._steps.check(value, letters)
            self._validator.validate(value)
        except InvalidSchema as refused:
            raise NotOfItsSchema(refused.sentence[:_SHOWN]) from None
        except (
            ValueError,
            RecursionError,
        ) as refused:  # also what JSON has, and the checker has not
            raise NotOfItsSchema(_told(refused)[:_SHOWN]) from None


def _placed(document: Json) -> Json:
    """One to whose name nothing can be relative, as `urn:…`, is among its references."""
    name = _name_of(document)
    if urlsplit(name).scheme and urljoin(name, "x") == "x":
        return document | {"$id": _BASE + quote(name, safe="")}
    return document


def _name_of(document: Json) -> str:
    name = document.get("$id") if isinstance(document, dict) else None
    return name if isinstance(name, str) else ""


def _told(refused: Exception) -> str:
    path = getattr(refused, "instance_path", None)
    if path is None:
        return str(refused)
    return f"at {'/'.join(map(str, path)) or 'the value'}: {getattr(refused, 'message', '')}"
