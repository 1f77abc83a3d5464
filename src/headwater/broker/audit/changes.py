"""What a request has changed, or was refused: one `Change` for each thing in it; pure.

`audited` stands in front of the handlers, outside the authorizer's rules, so that what these refuse is seen
too. It hears the answer, and hands the changes on; it never holds up or fails a request. What is only tried
(`validate_only`) is no change. Passwords and settings that hold secrets are never repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import islice
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from headwater.broker.registry import Api, Context, Handler, Later, Response
from headwater.broker.security.acls import Operation, Permission, ResourceType
from headwater.secrets import HIDDEN, is_sensitive

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

CHANGES_MAX = 1000
"""Of one request; the rest is counted in the last."""
TEXT_CHARS_MAX = 1000
_CONFIG_KINDS = {2: "topic", 4: "broker", 8: "logger", 16: "client metrics", 32: "group"}
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_OPERATIONS = ("set", "delete", "append", "subtract")


@dataclass(frozen=True)
class Change:
    """`what` was done to the `kind` of that `name`; `error`: Kafka's name of why it was not."""

    what: str
    kind: str
    name: str
    details: Mapping[str, object] = field(default_factory=dict)
    error: str | None = None


Tell = Callable[[str, Iterable[Change], Context], None]
Audited = Callable[[Mapping[int, Api], Tell], dict[int, Api]]
Describe = Callable[[object, Response], Iterator[Change]]


def audited(apis: Mapping[int, Api], tell: Tell) -> dict[int, Api]:
    """The same APIs; what those of `TABLE` do is told."""
    return {
        key: replace(api, handle=_heard(api, TABLE[key], tell)) if key in TABLE else api
        for key, api in apis.items()
    }


def _heard(api: Api, describe: Describe, tell: Tell) -> Handler:
    def heard(request: object, response: Response, context: Context) -> Response:
        if request is not None and not getattr(request, "validate_only", False):
            tell(api.name, limited(describe(request, response)), context)
        return response

    async def waited(answer: Awaitable[Response], request: object, context: Context) -> Response:
        return heard(request, await answer, context)

    def handle(
        broker: Broker, request: object, context: Context
    ) -> Response | Later | Awaitable[Response]:
        answer = api.handle(broker, request, context)
        if isinstance(answer, Later):
            outer = Later(answer.cancel)
            answer.listen(lambda said: outer.set(heard(request, said, context)), outer.fail)
            return outer
        if isinstance(answer, Mapping):
            return heard(request, answer, context)
        return waited(answer, request, context)

    return handle


def limited(changes: Iterator[Change]) -> Iterator[Change]:
    yield from islice(changes, CHANGES_MAX)
    left = sum(1 for _ in changes)
    if left:
        yield Change("and more", "request", f"{left} more changes in the same request")


def _error(row: Response | None) -> str | None:
    code = (row or {}).get("error_code", ErrorCode.none)
    return None if code is ErrorCode.none else str(ErrorCode(code).name).upper()


def _by(rows: Iterable[Response], name: str) -> dict[str, Response]:
    return {str(row.get(name)): row for row in rows}


def _text(part: object, name: str) -> str:
    """A field of a part of a request; nothing where it has none."""
    return str(getattr(part, name, None) or "")


def _number(part: object, name: str) -> int:
    return int(getattr(part, name, 0))


def _parts(part: object, name: str) -> tuple[object, ...]:
    return tuple(getattr(part, name, None) or ())


def _values(part: object) -> dict[str, object]:
    return dict(map(_alteration, _parts(part, "configs")))


def shown(name: str, value: str | None) -> object:
    """A setting's value, unless it is a secret."""
    if value is None:
        return None
    return HIDDEN if is_sensitive(name) else value[:TEXT_CHARS_MAX]


def _create_topics(request: object, response: Response) -> Iterator[Change]:
    rows = _by(response.get("topics", ()), "name")
    for each in _parts(request, "topics"):
        name = _text(each, "name")
        details = {"partitions": _number(each, "num_partitions"), "configs": _values(each)}
        yield Change("create", "topic", name, details, _error(rows.get(name)))


def _delete_topics(request: object, response: Response) -> Iterator[Change]:
    for row in response.get("responses", ()):
        named = row.get("name") or str(row.get("topic_id"))
        yield Change("delete", "topic", named, {"id": str(row.get("topic_id"))}, _error(row))


def _delete_records(request: object, response: Response) -> Iterator[Change]:
    rows = {
        (topic["name"], row["partition_index"]): row
        for topic in response.get("topics", ())
        for row in topic["partitions"]
    }
    for topic in _parts(request, "topics"):
        name = _text(topic, "name")
        for part in _parts(topic, "partitions"):
            number = _number(part, "partition_index")
            details = {"partition": number, "before_offset": _number(part, "offset")}
            yield Change("delete records", "topic", name, details, _error(rows.get((name, number))))


def _create_partitions(request: object, response: Response) -> Iterator[Change]:
    rows = _by(response.get("results", ()), "name")
    for each in _parts(request, "topics"):
        name = _text(each, "name")
        details = {"partitions": _number(each, "count")}
        yield Change("add partitions", "topic", name, details, _error(rows.get(name)))


def _alter_configs(request: object, response: Response) -> Iterator[Change]:
    answers = response.get("responses", ())
    rows = {(int(row["resource_type"]), row["resource_name"]): row for row in answers}
    for each in _parts(request, "resources"):
        number, name = _number(each, "resource_type"), _text(each, "resource_name")
        kind = _CONFIG_KINDS.get(number, str(number))
        error = _error(rows.get((number, name)))
        yield Change("configure", kind, name, {"configs": _values(each)}, error)


def _alteration(config: object) -> tuple[str, object]:
    """Of one config: its new value, or what else is done to it."""
    name = _text(config, "name")
    value = shown(name, getattr(config, "value", None))
    operation = _OPERATIONS[_number(config, "config_operation")]
    return name, value if operation == "set" else {operation: value}


def _create_acls(request: object, response: Response) -> Iterator[Change]:
    for each, row in zip(_parts(request, "creations"), response.get("results", ()), strict=False):
        kind = _word(ResourceType, _number(each, "resource_type"))
        is_prefix = _number(each, "resource_pattern_type") == 4
        details = {
            "operation": _word(Operation, _number(each, "operation")),
            "on": f"{kind}:{_text(each, 'resource_name')}{'*' if is_prefix else ''}",
            "host": _text(each, "host"),
        }
        what = _word(Permission, _number(each, "permission_type"))
        yield Change(what, "permission", _text(each, "principal"), details, _error(row))


def _delete_acls(request: object, response: Response) -> Iterator[Change]:
    answers = response.get("filter_results", ())
    for each, row in zip(_parts(request, "filters"), answers, strict=False):
        kind = _word(ResourceType, _number(each, "resource_type_filter"))
        details = {
            "on": f"{kind}:{_text(each, 'resource_name_filter') or '*'}",
            "removed": len(row.get("matching_acls") or ()),
        }
        who = _text(each, "principal_filter") or "everybody"
        yield Change("remove", "permission", who, details, _error(row))


def _word(kind: type[IntEnum], value: int) -> str:
    try:
        return str(kind(value).name).lower()
    except ValueError:
        return str(value)


def _alter_users(request: object, response: Response) -> Iterator[Change]:
    rows = _by(response.get("results", ()), "user")
    for what, field_ in (("remove password", "deletions"), ("set password", "upsertions")):
        for each in _parts(request, field_):
            name = _text(each, "name")
            details = {"mechanism": _MECHANISMS.get(_number(each, "mechanism"), "unknown")}
            yield Change(what, "user", name, details, _error(rows.get(name)))


def _alter_quotas(request: object, response: Response) -> Iterator[Change]:
    for entry, row in zip(_parts(request, "entries"), response.get("entries", ()), strict=False):
        named = ", ".join(
            f"{_text(each, 'entity_type')}={_text(each, 'entity_name') or '(default)'}"
            for each in _parts(entry, "entity")
        )
        details = {
            _text(op, "key"): None if getattr(op, "remove", False) else getattr(op, "value", None)
            for op in _parts(entry, "ops")
        }
        yield Change("set quota", "quota", named, details, _error(row))


def _delete_groups(request: object, response: Response) -> Iterator[Change]:
    for row in response.get("results", ()):
        yield Change("delete", "group", str(row.get("group_id")), {}, _error(row))


def _group_offsets(what: str) -> Describe:
    def describe(request: object, response: Response) -> Iterator[Change]:
        some = _parts(request, "topics")[:CHANGES_MAX]
        details = {"topics": [_text(t, "name") or _text(t, "topic_name") for t in some]}
        yield Change(what, "group", _text(request, "group_id"), details, _error(response))

    return describe


TABLE: Mapping[int, Describe] = {
    19: _create_topics,
    20: _delete_topics,
    21: _delete_records,
    30: _create_acls,
    31: _delete_acls,
    33: _alter_configs,
    37: _create_partitions,
    42: _delete_groups,
    44: _alter_configs,
    47: _group_offsets("delete offsets"),
    49: _alter_quotas,
    51: _alter_users,
    91: _group_offsets("move share group"),
    92: _group_offsets("delete offsets"),
}
"""By the key of the API. Records, commits and what coordinators do for clients are no such changes."""
