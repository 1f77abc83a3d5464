"""The requests that change something, each with its description; and what stands in front of their handlers.

`audited` stands outside the authorizer's rules, so that what these refuse is seen too. It never holds up or
fails a request. What is only tried (`validate_only`) is no change; what fails half way may be, and is told.
Passwords and settings that hold secrets are never repeated.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from headwater.broker.audit.description import (
    Change,
    Description,
    MayTell,
    answers,
    by_name,
    described,
    first,
    in_order,
    number,
    partitions,
    parts_of,
    resources,
    text,
    whole,
    word,
)
from headwater.broker.audit.limits import ITEMS_MAX, TEXT_CHARS_MAX, bounded
from headwater.broker.registry import Api, Context, Later, Response
from headwater.broker.security.acls import Operation, Permission, ResourceType
from headwater.secrets import HIDDEN, is_sensitive

if TYPE_CHECKING:
    from headwater.broker.broker import Broker

_CONFIG_KINDS = {2: "topic", 4: "broker", 8: "logger", 16: "client metrics", 32: "group"}
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_OPERATIONS = ("set", "delete", "append", "subtract")
_FAILED = "UNKNOWN_SERVER_ERROR"
Tell = Callable[[str, Callable[[MayTell], Iterable[Change]], Context], None]


def audited(apis: Mapping[int, Api], tell: Tell) -> dict[int, Api]:
    """The same APIs; what those of `TABLE` do is told."""
    return {
        key: replace(api, handle=_Interceptor(api, TABLE[key], tell).handle)
        if key in TABLE
        else api
        for key, api in apis.items()
    }


@dataclass(frozen=True)
class _Interceptor:
    """Hears what a handler answers, or that it fails."""

    api: Api
    how: Description
    tell: Tell

    def handle(
        self, broker: Broker, request: object, context: Context
    ) -> Response | Later | Awaitable[Response]:
        answer: Response | Later | Awaitable[Response] | None = None
        try:
            answer = self.api.handle(broker, request, context)
        finally:
            if answer is None:
                self._broke(request, context)
        if isinstance(answer, Later):
            return self._listened(answer, request, context)
        if isinstance(answer, Mapping):
            return self._heard(request, answer, context)
        return self._waited(answer, request, context)

    async def _waited(
        self, answer: Awaitable[Response], request: object, context: Context
    ) -> Response:
        response: Response | None = None
        try:
            response = await answer
        finally:
            if response is None:
                self._broke(request, context)
        return self._heard(request, response, context)

    def _listened(self, answer: Later, request: object, context: Context) -> Later:
        outer = Later(answer.cancel)

        def fail(error: Exception) -> None:
            self._broke(request, context)
            outer.fail(error)

        answer.listen(lambda said: outer.set(self._heard(request, said, context)), fail)
        return outer

    def _heard(self, request: object, response: Response, context: Context) -> Response:
        if _is_meant(request):
            self.tell(self.api.name, partial(described, self.how, request, response), context)
        return response

    def _broke(self, request: object, context: Context) -> None:
        if _is_meant(request):
            self.tell(self.api.name, _half_done, context)


def _is_meant(request: object) -> bool:
    return request is not None and not getattr(request, "validate_only", False)


def _half_done(may_tell: MayTell) -> Iterator[Change]:
    """Of a handler that has raised: nobody knows how far it has come."""
    if may_tell(_FAILED):
        yield Change("change", "request", "failed; some of it may be done", {}, _FAILED)


# ---- what is said of a part ----------------------------------------------------------------------


def _configs(part: object) -> dict[str, object]:
    return first(parts_of(part, "configs"), _alteration)


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


def topic_made(name: str, partitions: int) -> Callable[[MayTell], Iterable[Change]]:
    """Of a topic that no CreateTopics has made, but the first who asked for it."""
    change = Change("create", "topic", name, {"partitions": partitions, "on_first_use": True})
    return lambda may_tell: [change]


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
    kind = word(ResourceType, number(each, "resource_type"))
    is_prefix = number(each, "resource_pattern_type") == 4
    details = {
        "operation": word(Operation, number(each, "operation")),
        "on": f"{kind}:{text(each, 'resource_name')}{'*' if is_prefix else ''}",
        "host": text(each, "host"),
    }
    what = word(Permission, number(each, "permission_type"))
    return Change(what, "permission", text(each, "principal"), details)


def _delete_acls(each: object, row: Response) -> Change:
    kind = word(ResourceType, number(each, "resource_type_filter"))
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
    details = first(parts_of(entry, "ops"), _limit)
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
