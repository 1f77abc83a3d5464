"""DescribeClientQuotas (key 48), versions 0 and 1: the quotas of users, clients and addresses; KIP-546.

Which quotas DescribeClientQuotas means: pure. The sentences are Kafka's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kio.schema.errors import ErrorCode

from headwater.broker.quotas.entities import CLIENT, IP, USER, Entity
from headwater.broker.registry import Api, Context, Response, always

if TYPE_CHECKING:
    from headwater.broker.broker import Broker


def handle(broker: Broker, request: Any, context: Context) -> Response:
    components = [
        Component(each.entity_type, each.match_type, each.match) for each in request.components
    ]
    try:
        check(components)
    except BadFilter as error:
        return {"error_code": error.code, "error_message": str(error), "entries": None}
    found = (
        (owner, values)
        for owner, values in broker.quotas.table.quotas.items()
        if matches(owner, components, request.strict)
    )
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in owner],
            "values": [{"key": key, "value": value} for key, value in values.items()],
        }
        for owner, values in found
    ]
    return {"error_message": "", "entries": entries}


API = Api(48, "DescribeClientQuotas", (0, 1), handle, lists=always)


EXACT, DEFAULT, SPECIFIED = 0, 1, 2
_NAMES = {EXACT: "EXACT", DEFAULT: "DEFAULT", SPECIFIED: "SPECIFIED"}


class BadFilter(Exception):
    """A filter that cannot be."""

    def __init__(self, sentence: str, code: ErrorCode = ErrorCode.invalid_request) -> None:
        super().__init__(sentence)
        self.code = code


class Component(NamedTuple):
    """One condition: the entity has this type, with this name, the default one, or any."""

    kind: str
    match_type: int
    match: str | None


def check(components: Sequence[Component]) -> None:
    """Raise `BadFilter` for what no filter may have."""
    seen: set[str] = set()
    for kind, match_type, match in components:
        if not kind:
            raise BadFilter("Invalid empty entity type.")
        if kind in seen:
            raise BadFilter(f"Entity type {kind} cannot appear more than once in the filter.")
        seen.add(kind)
        if kind not in (USER, CLIENT, IP):
            raise BadFilter(f"Unsupported entity type {kind}", ErrorCode.unsupported_version)
        if match_type not in _NAMES:
            raise BadFilter(f"Unknown match type {match_type}")
        asked = f"Request specified MATCH_TYPE_{_NAMES[match_type]}"
        if match_type == EXACT and match is None:
            raise BadFilter(f"{asked}, but set match string to null.")
        if match_type != EXACT and match is not None:
            raise BadFilter(f"{asked}, but also specified a match string.")
    if IP in seen and len(seen) > 1:
        raise BadFilter(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        )


def matches(owner: Entity, components: Sequence[Component], strict: bool) -> bool:
    """`strict`: the entity must have no type that the filter does not name."""
    names = dict(owner)
    if strict and len(names) != len(components):
        return False
    return all(
        each.kind in names
        and (
            each.match_type == SPECIFIED
            or names[each.kind] == (each.match if each.match_type == EXACT else None)
        )
        for each in components
    )
