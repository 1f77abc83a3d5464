"""What the source's options say of values: their schema, its form, the registry that has it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from headwater.client.errors import BadOption
from headwater.client.options import Options


class Registry(NamedTuple):
    """Where the schemas are that values name; without a schema, keys and values become JSON."""

    url: str
    pins: Mapping[str, int]
    """Topic → the schema that the query's columns were made from."""
    watched: Mapping[str, int]
    """Topic → the latest schema that was looked at for this query, or 0. A later one stops the query, so that
    somebody looks at its columns before a row of it."""


def read(given: Options) -> tuple[str | None, Registry | None]:
    """The schema, and the registry. Raises BadOption."""
    schema, url = given.text("schema"), given.text("registry")
    _check(given, schema)
    if not url:
        return schema, None
    return schema, Registry(url, _ids(given, "registryPin"), _ids(given, "registryWatch"))


def _check(given: Options, schema: str | None) -> None:
    for name in ("schemaFormat", "mode", "deadLetterTopic"):
        if schema is None and name in given:
            raise BadOption(f"{name} means nothing without a schema.", hint="Give the schema, too.")
    for name in ("registryPin", "registryWatch"):
        if name in given and not given.text("registry"):
            raise BadOption(f"{name} means nothing without a registry.")
    if given.text("registry") and "schemaFormat" in given:
        raise BadOption("With a registry, values say themselves what they are: leave schemaFormat.")
    if (given.text("mode") or "").upper() == "FAILFAST" and "deadLetterTopic" in given:
        raise BadOption("mode=FAILFAST and deadLetterTopic contradict each other.")


def _ids(given: Options, name: str) -> dict[str, int]:
    """Topic → the id of a schema."""
    text = given.text(name) or "{}"
    try:
        found = json.loads(text)
        good = isinstance(found, dict) and all(type(each) is int for each in found.values())
    except ValueError:
        good = False
    if not good:
        raise BadOption(f"{name} is {text!r}.", hint='It must be JSON as {"orders": 7}.')
    return dict(found)


def guess(schema: str | None) -> str:
    """An Avro schema is JSON with a `type` that Spark's own JSON form of a schema never has."""
    if schema is None or not schema.lstrip().startswith("{"):
        return "json"
    try:
        return "json" if json.loads(schema).get("type") == "struct" else "avro"
    except (ValueError, AttributeError):
        return "json"
