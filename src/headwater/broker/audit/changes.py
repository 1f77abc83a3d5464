"""What a request has changed, or was refused: one `Change` for each thing in it; pure.

`audited` stands in front of the handlers, outside the authorizer's rules, so that what these refuse is seen
too. It hears the answer, and hands the changes on; it never holds up or fails a request. What is only tried
(`validate_only`) is no change. Passwords and settings that hold secrets are never repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING, Any

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
Describe = Callable[[Any, Response], Iterator[Change]]


def audited(apis: Mapping[int, Api], tell: Tell) -> dict[int, Api]:
    """The same APIs; what those of `TABLE` do is told."""
    return {
        key: replace(api, handle=_heard(api, TABLE[key], tell)) if key in TABLE else api
        for key, api in apis.items()
    }


def _heard(api: Api, describe: Describe, tell: Tell) -> Handler:
    def heard(request: Any, response: Response, context: Context) -> Response:
        if request is not None and not getattr(request, "validate_only", False):
            tell(api.name, limited(describe(request, response)), context)
        return response

    async def waited(answer: Awaitable[Response], request: Any, context: Context) -> Response:
        return heard(request, await answer, context)

    def handle(
        broker: Broker, request: Any, context: Context
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


def _error(row: Mapping[str, Any] | None) -> str | None:
    code = (row or {}).get("error_code", ErrorCode.none)
    return None if code is ErrorCode.none else str(ErrorCode(code).name).upper()


def _by(rows: Iterable[Mapping[str, Any]], *names: str) -> dict[Any, Mapping[str, Any]]:
    return {
        tuple(row.get(n) for n in names) if names[1:] else row.get(names[0]): row for row in rows
    }


def _short(value: object) -> object:
    return value[:TEXT_CHARS_MAX] if isinstance(value, str) else value


def _values(configs: Iterable[Any] | None) -> dict[str, object]:
    return {each.name: shown(each.name, each.value) for each in configs or ()}


def shown(name: str, value: str | None) -> object:
    """A setting's value, unless it is a secret."""
    return HIDDEN if value is not None and is_sensitive(name) else _short(value)


def _create_topics(request: Any, response: Response) -> Iterator[Change]:
    rows = _by(response.get("topics", ()), "name")
    for each in request.topics:
        details = {"partitions": each.num_partitions, "configs": _values(each.configs)}
        yield Change("create", "topic", each.name, details, _error(rows.get(each.name)))


def _delete_topics(request: Any, response: Response) -> Iterator[Change]:
    for row in response.get("responses", ()):
        named = row.get("name") or str(row.get("topic_id"))
        yield Change("delete", "topic", named, {"id": str(row.get("topic_id"))}, _error(row))


def _delete_records(request: Any, response: Response) -> Iterator[Change]:
    rows = {
        (topic["name"], row["partition_index"]): row
        for topic in response.get("topics", ())
        for row in topic["partitions"]
    }
    for topic in request.topics:
        for part in topic.partitions:
            place = (topic.name, part.partition_index)
            details = {"partition": part.partition_index, "before_offset": part.offset}
            yield Change("delete records", "topic", topic.name, details, _error(rows.get(place)))


def _create_partitions(request: Any, response: Response) -> Iterator[Change]:
    rows = _by(response.get("results", ()), "name")
    for each in request.topics:
        error = _error(rows.get(each.name))
        yield Change("add partitions", "topic", each.name, {"partitions": each.count}, error)


def _alter_configs(request: Any, response: Response) -> Iterator[Change]:
    rows = _by(response.get("responses", ()), "resource_type", "resource_name")
    for each in request.resources:
        kind = _CONFIG_KINDS.get(int(each.resource_type), str(each.resource_type))
        row = rows.get((each.resource_type, each.resource_name))
        details = {"configs": dict(map(_alteration, each.configs))}
        yield Change("configure", kind, each.resource_name, details, _error(row))


def _alteration(config: Any) -> tuple[str, object]:
    """Of one config: its new value, or what else is done to it."""
    value = shown(config.name, config.value)
    operation = _OPERATIONS[getattr(config, "config_operation", 0)]
    return config.name, value if operation == "set" else {operation: value}


def _create_acls(request: Any, response: Response) -> Iterator[Change]:
    rows = response.get("results", ())
    for number, each in enumerate(request.creations):
        kind = _word(ResourceType, each.resource_type)
        details = {
            "operation": _word(Operation, each.operation),
            "on": f"{kind}:{each.resource_name}",
            "pattern": "prefixed" if each.resource_pattern_type == 4 else "literal",
            "host": each.host,
        }
        what = _word(Permission, each.permission_type)
        error = _error(rows[number]) if number < len(rows) else None
        yield Change(what, "permission", each.principal, details, error)


def _delete_acls(request: Any, response: Response) -> Iterator[Change]:
    for asked, row in zip(request.filters, response.get("filter_results", ()), strict=False):
        details = {
            "on": f"{_word(ResourceType, asked.resource_type_filter)}:{asked.resource_name_filter or '*'}",
            "removed": len(row.get("matching_acls") or ()),
        }
        who = asked.principal_filter or "everybody"
        yield Change("remove", "permission", who, details, _error(row))


def _word(kind: type[Enum], value: int) -> str:
    try:
        return str(kind(value).name).lower()
    except ValueError:
        return str(value)


def _alter_users(request: Any, response: Response) -> Iterator[Change]:
    rows = _by(response.get("results", ()), "user")
    for each in request.deletions:
        details = {"mechanism": f"SCRAM-{int(each.mechanism)}"}
        yield Change("remove password", "user", each.name, details, _error(rows.get(each.name)))
    for each in request.upsertions:
        details = {"mechanism": f"SCRAM-{int(each.mechanism)}", "iterations": each.iterations}
        yield Change("set password", "user", each.name, details, _error(rows.get(each.name)))


def _alter_quotas(request: Any, response: Response) -> Iterator[Change]:
    rows = list(response.get("entries", ()))
    for number, entry in enumerate(request.entries):
        named = ", ".join(f"{e.entity_type}={e.entity_name or '(default)'}" for e in entry.entity)
        details = {op.key: None if op.remove else op.value for op in entry.ops}
        yield Change("set quota", "quota", named, details, _error(dict(rows[number])))


def _delete_groups(request: Any, response: Response) -> Iterator[Change]:
    for row in response.get("results", ()):
        yield Change("delete", "group", str(row.get("group_id")), {}, _error(row))


def _group_offsets(what: str) -> Describe:
    def describe(request: Any, response: Response) -> Iterator[Change]:
        topics = [getattr(each, "name", None) or each.topic_name for each in request.topics or ()]
        details = {"topics": topics[:CHANGES_MAX]}
        yield Change(what, "group", request.group_id, details, _error(response))

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
