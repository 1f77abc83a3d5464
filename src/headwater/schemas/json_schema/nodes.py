"""The root of a JSON Schema with all that it refers to, for `document`, which checks it, and for `steps`.

Nothing is ever fetched: a `$ref` leads into the document, or into one of the references that were sent with
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urljoin

from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7, specification_with

from headwater.schemas.errors import InvalidSchema
from headwater.schemas.json_schema.shapes import Node, draft_of

_OWN = "urn:headwater:schema"


def rooted(value: object, imported: Mapping[str, object]) -> Node:
    """Raises InvalidSchema."""
    base = value.get("$id", "") if isinstance(value, dict) else ""
    base = base if isinstance(base, str) else ""
    registry: Registry[object] = Registry()
    for name, document in imported.items():
        resource = _resource(document)
        registry = registry.with_resource(name, resource)
        try:
            registry = registry.with_resource(urljoin(base, name), resource)
        except ValueError:
            raise InvalidSchema(f"Invalid schema: {name!r} is no name of a reference") from None
    registry = registry.with_resource(base or _OWN, _resource(value))
    try:
        registry = registry.crawl()
        resolver = registry.resolver(base or _OWN)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidSchema(f"Invalid schema: {error}"[:500]) from None
    return Node(value, resolver, draft_of(value))


def _resource(value: object) -> Resource[object]:
    draft = value.get("$schema") if isinstance(value, dict) else None
    specification = DRAFT7
    if isinstance(draft, str):
        specification = specification_with(draft.rstrip("#"), default=DRAFT7)
    return specification.create_resource(value)
