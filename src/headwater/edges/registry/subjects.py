"""Handlers of /subjects: list, register, look up, read and delete versions."""

from __future__ import annotations

from contextlib import suppress
from typing import TypeVar

from headwater.edges.registry.call import ADMIN, READ, WRITE, Call, as_json, parsed
from headwater.schemas import changes, deletion, errors, resolution
from headwater.schemas import subjects as names
from headwater.schemas.changes import Registration
from headwater.schemas.parser import Unprepared
from headwater.schemas.records import Version
from headwater.schemas.state import State

_TRIES = 20
_UNTOLD = (
    "Schema being registered is incompatible with an earlier schema for its subject, which this token may "
    "not read"
)


def listed(call: Call) -> list[str]:
    return page(call, asked_for(call, only=call.flag("deletedOnly")))


def asked_for(call: Call, *, only: bool = False) -> list[str]:
    """The subjects that `subjectPrefix` asks for, and the token may read; an empty one is the default
    context's."""
    prefix = call.query.get("subjectPrefix", names.WILDCARD)
    if call.context != names.DEFAULT:
        prefix = f":{call.context}:{'' if prefix == names.WILDCARD else prefix}"
    begin = "" if prefix == names.WILDCARD else prefix
    found = call.state.subjects(begin, deleted=call.flag("deleted"), only=only)
    return [
        name
        for name in found
        if call.may_read(name) and (prefix or names.context_of(name) == names.DEFAULT)
    ]


Item = TypeVar("Item")


def page(call: Call, found: list[Item]) -> list[Item]:
    """The part that `offset` and `limit` ask for."""
    first, count = max(0, call.number("offset", 0)), call.number("limit", -1)
    return found[first : first + count] if count > 0 else found[first:]


def looked_up(call: Call) -> dict[str, object]:
    asked = call.registration(READ)
    deleted = call.flag("deleted")
    if not call.state.versions(asked.subject, deleted=deleted):
        raise errors.subject_not_found(asked.subject)
    found = changes.look_up(call.state, asked, deleted=deleted)
    if found is None:
        raise errors.schema_not_found()
    return as_json(found)


def deleted(call: Call) -> list[int]:
    subject, permanent = call.subject(ADMIN), call.flag("permanent")
    return call.store.change(
        lambda state: deletion.delete_subject(state, subject, permanent=permanent)
    )


def versions(call: Call) -> list[int]:
    subject = call.subject()
    only = call.flag("deletedOnly")
    found = call.state.versions(subject, deleted=only or call.flag("deleted"))
    if not found:
        raise errors.subject_not_found(subject)
    return page(call, [each.version for each in found if each.is_deleted or not only])


def registered(call: Call) -> dict[str, object]:
    asked = call.registration(WRITE)
    is_open = not call.state.mode_in_force(asked.subject).startswith("READONLY")
    if is_open and asked.id < 0 and asked.version < 0:
        same = changes.find(call.state, asked) if call.state.versions(asked.subject) else None
        if same is not None:
            return _given(same)
    try:
        return _given(_registered(call, asked))
    except errors.RegistryError as error:
        if error.code != errors.INCOMPATIBLE or call.may_read(asked.subject):
            raise
        raise errors.incompatible(_UNTOLD) from None


def _registered(call: Call, asked: Registration) -> Version:
    """What takes long is done before the others have to wait for it, and again where they changed it."""
    parser = call.state.parser

    def decided(state: State) -> changes.Decision[Version]:
        with parser.from_memory():
            return changes.register(state, asked)

    with parser.remembering():
        for _ in range(_TRIES):
            with suppress(errors.RegistryError):
                changes.register(call.state, asked)
            with suppress(Unprepared):
                return call.store.change(decided)
    return call.store.change(lambda state: changes.register(state, asked))


def _given(version: Version) -> dict[str, object]:
    # Without the text: clients keep the one that they sent, and some need it in that form.
    return {"id": version.id, "version": version.version, "guid": version.schema.guid}


def version(call: Call) -> dict[str, object]:
    found = one(call)
    return as_json(found, shown(call, found))


def schema_of_version(call: Call) -> str:
    found = one(call)
    return shown(call, found)


def one(call: Call, *, with_deleted: bool = False) -> Version:
    """The version that the path names. Raises RegistryError."""
    subject, number = call.subject(), call.version()
    deleted = with_deleted or call.flag("deleted")
    found = call.state.version(subject, number, deleted=deleted)
    if found is None:
        if not call.state.versions(subject, deleted=deleted):
            raise errors.subject_not_found(subject)
        raise errors.version_not_found(number)
    return found


def shown(call: Call, version: Version) -> str:
    """Its text, in the `format` that was asked for."""
    if call.query.get("format") == "serialized" and version.schema.kind == "PROTOBUF":
        context = names.context_of(version.subject)
        source = resolution.source(call.state, context, version.schema)
        return call.state.parser.text(source, "serialized", is_new=False)
    return version.schema.text


def version_deleted(call: Call) -> int:
    subject, number, permanent = call.subject(ADMIN), call.version(), call.flag("permanent")
    return call.store.change(
        lambda state: deletion.delete_version(state, subject, number, permanent=permanent)
    )


def referrers(call: Call) -> list[int]:
    """Those that the token may read: an id tells that there is such a schema."""
    found = one(call, with_deleted=True)
    deleted = call.flag("deleted")
    every = call.state.referrers(found.subject, found.version, deleted=deleted)
    return page(call, sorted({each.id for each in every if call.may_read(each.subject)}))


def with_metadata(call: Call) -> dict[str, object]:
    """The latest version whose metadata has these properties (`?key=…&value=…`)."""
    subject = call.subject()
    found = call.state.versions(subject, deleted=call.flag("deleted"))
    if not found:
        raise errors.subject_not_found(subject)
    key, value = call.query.get("key", ""), call.query.get("value", "")
    for each in reversed(found):
        found_metadata = parsed(each.schema.metadata or "{}")
        properties = found_metadata.get("properties") if isinstance(found_metadata, dict) else None
        if isinstance(properties, dict) and properties.get(key) == value:
            return as_json(each)
    raise errors.schema_not_found()
