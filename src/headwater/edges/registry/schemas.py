"""Handlers of /schemas, /contexts and /compatibility: by id, all of them, and what a new version would
meet.
"""

from __future__ import annotations

from headwater.edges.registry.call import READ, Call, as_json, schema_json
from headwater.edges.registry.subjects import asked_for, page, shown
from headwater.schemas import changes, errors, kinds
from headwater.schemas import subjects as names
from headwater.schemas.records import Version


def types(call: Call) -> list[str]:
    return list(kinds.NAMES)


def listed(call: Call) -> list[dict[str, object]]:
    found: list[Version] = []
    for name in asked_for(call):
        versions = call.state.versions(name, deleted=call.flag("deleted"))
        found += versions[-1:] if call.flag("latestOnly") else versions
    return [as_json(each) for each in page(call, found)]


def by_id(call: Call) -> dict[str, object]:
    found = _holders(call)[0]
    made = {"guid": found.schema.guid, **schema_json(found.schema, shown(call, found))}
    if call.flag("fetchMaxId"):
        made["maxId"] = call.state.highest_id(names.context_of(found.subject))
    return made


def text_by_id(call: Call) -> str:
    return shown(call, _holders(call)[0])


def subjects_of_id(call: Call) -> list[str]:
    return page(call, sorted({each.subject for each in _shown_holders(call)}))


def versions_of_id(call: Call) -> list[dict[str, object]]:
    found = [{"subject": e.subject, "version": e.version} for e in _shown_holders(call)]
    return page(call, found)


def _shown_holders(call: Call) -> list[Version]:
    deleted = call.flag("deleted")
    return [each for each in _holders(call) if deleted or not each.is_deleted]


def _holders(call: Call) -> list[Version]:
    """The versions with this id that the token reaches. Raises RegistryError."""
    text = call.names["id"]
    if not text.isascii() or not text.isdigit() or len(text) > 10:
        raise errors.RegistryError(404, f"{text[:100]!r} is no id of a schema")
    context = call.context
    subject = call.query.get("subject")
    if subject:
        context = names.context_of(names.qualified(context, subject))
    found = call.state.by_id(context, int(text))
    if not found:
        raise errors.schema_not_found(text)
    readable = [each for each in found if call.may_read(each.subject)]
    if not readable:
        raise call.refused(READ, f"the schema {text}")
    return readable


def by_guid(call: Call) -> dict[str, object]:
    holder = _of_guid(call)[0]
    return {"guid": holder.schema.guid, **schema_json(holder.schema, shown(call, holder))}


def ids_of_guid(call: Call) -> list[dict[str, object]]:
    found = {(names.context_of(each.subject), each.id) for each in _of_guid(call)}
    return [{"context": context, "id": identity} for context, identity in sorted(found)]


def _of_guid(call: Call) -> list[Version]:
    """The versions of this schema that the token reaches. Raises schema_not_found."""
    guid = call.names["guid"]
    found = [each for each in call.state.by_guid(guid) if call.may_read(each.subject)]
    if not found:
        raise errors.schema_not_found(guid)
    return found


def contexts(call: Call) -> list[str]:
    """Those with a subject that the token may read, and the default one."""
    readable = filter(call.may_read, call.state.subjects("", deleted=True))
    mine = {names.DEFAULT, *map(names.context_of, readable)}
    return page(call, [each for each in call.state.contexts() if each in mine])


def compatible(call: Call) -> dict[str, object]:
    """With one version, or with all that the level in force asks for."""
    asked = call.registration(READ)
    schema = changes.canonical(call.state, asked, is_new=True)
    known = call.state.versions(asked.subject)
    if "version" in call.names:
        number = call.version()
        if number != -1:
            found = call.state.version(asked.subject, number)
            if found is None and not known:
                raise errors.subject_not_found(asked.subject)
            if found is None:
                raise errors.version_not_found(number)
            known = [found]
        else:
            known = known[-1:]
    level = str(call.state.config_in_force(asked.subject)["compatibilityLevel"])
    said = changes.complaints(call.state, asked.subject, schema, level, known)
    made: dict[str, object] = {"is_compatible": not said}
    if call.flag("verbose"):
        made["messages"] = said
    return made
