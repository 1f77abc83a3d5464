"""What a request has changed, or was refused: one `Change` for each thing in it; pure.

A request is taken apart (`parts`), and each part is described for itself (`TABLE`): whatever is in one, the
others are told, and one that cannot be described is told as that. `interceptor` calls `described`. What is
done comes in full; what is refused, which anybody can have in any number, with its name, its error and a few
plain details. Passwords and settings that hold secrets are never repeated. All bounds are in `sizes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import islice

from kio.schema.errors import ErrorCode

from headwater.broker.audit.parts import (
    Pairs,
    answers,
    by_name,
    in_order,
    number,
    partitions,
    parts_of,
    resources,
    text,
    whole,
)
from headwater.broker.audit.sizes import CHANGES_MAX, ITEMS_MAX, PLAIN_MAX, TEXT_CHARS_MAX, bounded
from headwater.broker.registry import Response
from headwater.broker.security.acls import Operation, Permission, ResourceType
from headwater.secrets import HIDDEN, is_sensitive

_CONFIG_KINDS = {2: "topic", 4: "broker", 8: "logger", 16: "client metrics", 32: "group"}
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_ERRORS = {int(code): str(code.name).upper() for code in ErrorCode}
_OPERATIONS = ("set", "delete", "append", "subtract")


@dataclass(frozen=True)
class Change:
    """`what` was done to the `kind` of that `name`; `error`: Kafka's name of why it was not."""

    what: str
    kind: str
    name: str
    details: Mapping[str, object] = field(default_factory=dict)
    error: str | None = None


UNKNOWN = Change("change", "request", "cannot be described")
MayTell = Callable[[str], bool]
"""Whether one more refusal, with this error, is told."""


@dataclass(frozen=True)
class Description:
    """How a request is taken apart, and what is said of each part."""

    pairs: Pairs
    change: Callable[[object, Response], Change]


def described(
    how: Description, request: object, response: Response, may_tell: MayTell
) -> Iterator[Change]:
    """In the order of the request: what was done, up to `CHANGES_MAX`, and the refusals that may be told."""
    done = 0
    for part, row in how.pairs(request, response):
        error = _error(row)
        done += error is None
        if done <= CHANGES_MAX if error is None else may_tell(error):
            yield _described(how, part, row, error)
    if done > CHANGES_MAX:
        left = done - CHANGES_MAX
        yield Change("and more", "request", f"{left} more changes in the same request")


def _described(how: Description, part: object, row: Response, error: str | None) -> Change:
    try:
        change = how.change(part, row)
    except Exception as failure:  # whatever a client has put into it
        change = replace(UNKNOWN, details={"because": repr(failure)})
    details = change.details
    if error is not None:
        plain = ((k, v) for k, v in details.items() if isinstance(v, str | int))
        details = dict(islice(plain, PLAIN_MAX))
    return replace(change, error=error, details=details)


def _error(row: Response) -> str | None:
    code = row.get("error_code")
    return _ERRORS.get(int(code), str(code)) if code else None


def _word(kind: type[IntEnum], value: int) -> str:
    try:
        return str(kind(value).name).lower()
    except ValueError:
        return str(value)


# ---- what is said of a part ----------------------------------------------------------------------


def _first(
    some: Sequence[object], say: Callable[[object], tuple[str, object]]
) -> dict[str, object]:
    """What is said of the first; the rest is counted."""
    found = dict(map(say, some[:ITEMS_MAX]))
    left = len(some) - ITEMS_MAX
    return {**found, "and more": left} if left > 0 else found


def _configs(part: object) -> dict[str, object]:
    return _first(parts_of(part, "configs"), _alteration)


def _alteration(config: object) -> tuple[str, object]:
    """Of one config: its new value, or what else is done to it."""
    name = text(config, "name")
    value = shown(name, getattr(config, "value", None))
    verb = number(config, "config_operation")
    operation = _OPERATIONS[verb] if 0 <= verb < len(_OPERATIONS) else str(verb)
    return name[:TEXT_CHARS_MAX], value if operation == "set" else {operation: value}


def shown(name: str, value: str | None) -> object:
    """A setting's value, unless it is a secret; no setting has a name beyond what is looked at."""
    if value is None:
        return None
    is_hidden = len(name) > TEXT_CHARS_MAX or is_sensitive(name)
    return HIDDEN if is_hidden else bounded(value)


def _create_topic(each: object, _: Response) -> Change:
    details = {"partitions": number(each, "num_partitions"), "configs": _configs(each)}
    return Change("create", "topic", text(each, "name"), details)


def _delete_topic(_: object, row: Response) -> Change:
    id = str(row.get("topic_id"))
    return Change("delete", "topic", row.get("name") or id, {"id": id})


def _delete_records(each: object, _: Response) -> Change:
    assert isinstance(each, tuple)
    name, part = each
    details = {
        "partition": number(part, "partition_index"),
        "before_offset": number(part, "offset"),
    }
    return Change("delete records", "topic", name, details)


def _create_partitions(each: object, _: Response) -> Change:
    details = {"partitions": number(each, "count")}
    return Change("add partitions", "topic", text(each, "name"), details)


def _alter_configs(each: object, _: Response) -> Change:
    kind = number(each, "resource_type")
    details = {"configs": _configs(each)}
    name = text(each, "resource_name")
    return Change("configure", _CONFIG_KINDS.get(kind, str(kind)), name, details)


def _create_acl(each: object, _: Response) -> Change:
    kind = _word(ResourceType, number(each, "resource_type"))
    is_prefix = number(each, "resource_pattern_type") == 4
    details = {
        "operation": _word(Operation, number(each, "operation")),
        "on": f"{kind}:{text(each, 'resource_name')}{'*' if is_prefix else ''}",
        "host": text(each, "host"),
    }
    what = _word(Permission, number(each, "permission_type"))
    return Change(what, "permission", text(each, "principal"), details)


def _delete_acls(each: object, row: Response) -> Change:
    kind = _word(ResourceType, number(each, "resource_type_filter"))
    details = {
        "on": f"{kind}:{text(each, 'resource_name_filter') or '*'}",
        "removed": len(row.get("matching_acls") or ()),
    }
    return Change("remove", "permission", text(each, "principal_filter") or "everybody", details)


def _alter_user(each: object, _: Response) -> Change:
    what = "set password" if hasattr(each, "salted_password") else "remove password"
    details = {"mechanism": _MECHANISMS.get(number(each, "mechanism"), "unknown")}
    return Change(what, "user", text(each, "name"), details)


def _alter_quota(entry: object, _: Response) -> Change:
    named = ", ".join(
        f"{text(each, 'entity_type')}={text(each, 'entity_name') or '(default)'}"
        for each in parts_of(entry, "entity")[:ITEMS_MAX]
    )
    details = _first(parts_of(entry, "ops"), _limit)
    return Change("set quota", "quota", named, details)


def _limit(op: object) -> tuple[str, object]:
    return text(op, "key"), None if getattr(op, "remove", False) else getattr(op, "value", None)


def _delete_group(_: object, row: Response) -> Change:
    return Change("delete", "group", str(row.get("group_id")))


def _group_offsets(what: str) -> Description:
    def change(request: object, _: Response) -> Change:
        topics = parts_of(request, "topics")
        named = [text(t, "name") or text(t, "topic_name") for t in topics[:ITEMS_MAX]]
        left = len(topics) - ITEMS_MAX
        details = {"topics": [*named, f"and {left} more"] if left > 0 else named}
        return Change(what, "group", text(request, "group_id"), details)

    return Description(whole, change)


TABLE: Mapping[int, Description] = {
    19: Description(by_name("topics", answered="topics"), _create_topic),
    20: Description(answers("responses"), _delete_topic),
    21: Description(partitions, _delete_records),
    30: Description(in_order("creations", "results"), _create_acl),
    31: Description(in_order("filters", "filter_results"), _delete_acls),
    33: Description(resources, _alter_configs),
    37: Description(by_name("topics", answered="results"), _create_partitions),
    42: Description(answers("results"), _delete_group),
    44: Description(resources, _alter_configs),
    47: _group_offsets("delete offsets"),
    49: Description(in_order("entries", "entries"), _alter_quota),
    51: Description(
        by_name("deletions", "upsertions", answered="results", name="user"), _alter_user
    ),
    91: _group_offsets("move share group"),
    92: _group_offsets("delete offsets"),
}
"""By the key of the API. Records, commits and what coordinators do for clients are no such changes."""
