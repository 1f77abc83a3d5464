"""The schemas that another refers to, with those they refer to themselves, in the order in which they are
needed.

Of versions that are there: so it ends, unless an imported topic says otherwise; then it is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from headwater.schemas import bounds, subjects
from headwater.schemas.errors import InvalidSchema, too_large
from headwater.schemas.model import Imported, Reference, Schema
from headwater.schemas.parser import Source
from headwater.schemas.records import Version
from headwater.schemas.state import State


def imported(state: State, context: str, references: Sequence[Reference]) -> tuple[Imported, ...]:
    """Each once, by name. Raises InvalidSchema for one that is not there."""
    found: dict[str, Imported] = {}
    _collect(state, context, references, found, ())
    return tuple(found.values())


def source(state: State, context: str, schema: Schema) -> Source:
    """A schema with all that it refers to. Raises InvalidSchema."""
    return Source(schema.kind, schema.text, imported(state, context, schema.references))


def settled(state: State, context: str, references: Sequence[Reference]) -> tuple[Reference, ...]:
    """With numbers in place of -1, the latest version."""
    return tuple(
        each._replace(version=_version(state, context, each).version) for each in references
    )


def _version(state: State, context: str, reference: Reference) -> Version:
    subject = subjects.qualified(context, reference.subject)
    found = state.version(subject, reference.version, deleted=reference.version != -1)
    if found is None:
        raise InvalidSchema(
            f'No schema reference found for subject "{reference.subject}" and version '
            f"{reference.version}"
        )
    return found


def _collect(
    state: State,
    context: str,
    references: Sequence[Reference],
    found: dict[str, Imported],
    path: tuple[str, ...],
) -> None:
    for each in references:
        if each.name in path:
            raise InvalidSchema(f"Invalid schema: the reference {each.name!r} refers to itself")
        if each.name in found:
            continue
        if len(found) >= bounds.REFERENCES_MAX or len(path) >= bounds.DEPTH_MAX:
            raise too_large(f"The schema has more than {bounds.REFERENCES_MAX} references")
        version = _version(state, context, each)
        inner = subjects.context_of(version.subject)
        _collect(state, inner, version.schema.references, found, (*path, each.name))
        found[each.name] = Imported(each.name, version.schema.text)
        if sum(len(one.text) for one in found.values()) > bounds.CLOSURE_BYTES_MAX:
            raise too_large(
                f"The schema and its references have more than {bounds.CLOSURE_BYTES_MAX} bytes"
            )
