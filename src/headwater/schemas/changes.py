"""What a request would write: a look at the state gives records, an answer or an error. Pure but for parsers.

`store` calls these while nobody else can write, and writes what they return: so versions and ids are
given once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from headwater.schemas import bounds, errors, levels, records, resolution, subjects
from headwater.schemas.ids import ID_MAX
from headwater.schemas.model import Schema
from headwater.schemas.parser import Dated, Form
from headwater.schemas.records import Record, Version
from headwater.schemas.state import State

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT")
VERSION_MAX = 2**31 - 1
_SETTINGS = ("compatibility", "compatibilityLevel", "normalize")


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Decision(Generic[Answer]):
    """`answer` counts once the records are in the log."""

    answer: Answer
    records: Sequence[Record] = field(default_factory=tuple)


@dataclass(frozen=True)
class Registration:
    """A request to register or to look up. `id` and `version`: only while importing; -1: the next."""

    subject: str
    schema: Schema
    normalize: bool = False
    id: int = -1
    version: int = -1


def canonical(state: State, asked: Registration, *, is_new: bool) -> Schema:
    """The schema as it is kept: canonical text, references with numbers. Raises InvalidSchema."""
    context = subjects.context_of(asked.subject)
    references = resolution.settled(state, context, asked.schema.references)
    is_normal = asked.normalize or state.config_in_force(asked.subject).get("normalize") is True
    form: Form = "normalized" if is_normal else "canonical"
    if is_normal:
        references = tuple(sorted(set(references)))
    schema = replace(asked.schema, references=references)
    source = resolution.source(state, context, schema)
    return replace(schema, text=state.parser.text(source, form, is_new=is_new))


def find(state: State, asked: Registration, *, deleted: bool = False) -> Version | None:
    """The version of a subject that is this schema. Raises InvalidSchema."""
    wanted = canonical(state, asked, is_new=False).fingerprint
    versions = state.versions(asked.subject, deleted=deleted)
    return next((each for each in reversed(versions) if each.schema.fingerprint == wanted), None)


def look_up(state: State, asked: Registration, *, deleted: bool = False) -> Version | None:
    """The same, or one that is it with what it refers to written out: so programs have a schema that were
    generated from it. Raises InvalidSchema."""
    found = find(state, asked, deleted=deleted)
    if found is not None or asked.schema.references:
        return found
    context, alike = subjects.context_of(asked.subject), replace(asked.schema, text="")
    likely = [
        each
        for each in reversed(state.versions(asked.subject, deleted=deleted))
        if each.schema.references and replace(each.schema, text="", references=()) == alike
    ]
    if not likely:
        return None
    whole = _whole(state, context, asked.schema)
    return next((each for each in likely if _whole(state, context, each.schema) == whole), None)


def _whole(state: State, context: str, schema: Schema) -> str:
    return state.parser.text(resolution.source(state, context, schema), "whole", is_new=False)


def register(state: State, asked: Registration) -> Decision[Version]:
    """The answer is the version, new or found: what is there already is found in every mode."""
    subject = subjects.check(asked.subject)
    asked = replace(asked, subject=subject)
    mode = state.mode_in_force(subject)
    schema = canonical(state, asked, is_new=mode == "READWRITE")
    same = [e for e in state.versions(subject) if e.schema.fingerprint == schema.fingerprint]
    if same and (asked.id < 0 or same[-1].id == asked.id) and asked.version <= 0:
        return Decision(same[-1])
    writable(state, subject)
    is_import = mode == "IMPORT"
    if is_import != (asked.id >= 0):  # others' ids and our own must not meet
        wanted = "read-write" if is_import else "import"
        raise errors.not_permitted(f"Subject {subject} is not in {wanted} mode")
    if not is_import:
        _check_compatible(state, subject, schema)
    identity = _id(state, asked, schema)
    number = _imported_version(state, asked, schema) if is_import else _next_version(state, asked)
    version = Version(subject, number, identity, schema)
    record = records.schema_record(version)
    bounds.check_record(record.value)
    return Decision(version, [record])


def _next_version(state: State, asked: Registration) -> int:
    known = state.versions(asked.subject, deleted=True)
    following = known[-1].version + 1 if known else 1
    if following > VERSION_MAX:
        raise errors.store_failed(f"every version of {asked.subject} has been given")
    if asked.version > 0 and asked.version != following:
        raise errors.InvalidSchema("Version is not one more than previous version")
    return following


def _imported_version(state: State, asked: Registration, schema: Schema) -> int:
    """As it was elsewhere; not in place of another: that one's id would be gone, and data name it."""
    if asked.version <= 0:
        return _next_version(state, asked)
    if asked.version > VERSION_MAX:
        raise errors.invalid_version(asked.version)
    there = state.version(asked.subject, asked.version, deleted=True)
    if there is not None and (
        there.id != asked.id or there.schema.fingerprint != schema.fingerprint
    ):
        raise errors.not_permitted(
            f"Overwrite version {asked.version} of subject {asked.subject} is not permitted."
        )
    return asked.version


def _id(state: State, asked: Registration, schema: Schema) -> int:
    context = subjects.context_of(asked.subject)
    known = state.id_of(context, schema)
    if asked.id >= 0:
        holders = state.by_id(context, asked.id)
        if not 0 < asked.id <= ID_MAX:
            raise errors.id_does_not_match(f"{asked.id} is no id of a schema")
        was = holders[0].schema.guid if holders else state.was(context, asked.id)
        if was is not None and was != schema.guid:
            raise errors.not_permitted(f"Overwrite new schema with id {asked.id} is not permitted.")
        return asked.id
    if known is not None:
        return known
    following = state.next_id(context)
    if following is None:
        raise errors.store_failed("every id has been given")
    return following


def _check_compatible(state: State, subject: str, schema: Schema) -> None:
    level = str(state.config_in_force(subject)["compatibilityLevel"])
    said = complaints(state, subject, schema, level, state.versions(subject))
    if said:
        raise errors.incompatible(
            "Schema being registered is incompatible with an earlier schema for subject "
            f'"{subject}", details: [{", ".join(said)}]'
        )


def complaints(
    state: State, subject: str, schema: Schema, level: str, versions: Sequence[Version]
) -> list[str]:
    """Why a schema does not get along with these versions of its subject."""
    if level == "NONE" or not versions:
        return []
    context = subjects.context_of(subject)
    new = resolution.source(state, context, schema)
    wanted = versions if level.endswith("_TRANSITIVE") else versions[-1:]
    known = [Dated(e.version, resolution.source(state, context, e.schema)) for e in wanted]
    return state.parser.complaints(new, known, level)


def set_config(
    state: State, subject: str | None, given: Mapping[str, object]
) -> Decision[dict[str, object]]:
    """The answer is what is set for just this now."""
    writable(state, subject)
    unknown = [key for key, value in given.items() if key not in _SETTINGS and value is not None]
    if unknown:
        raise errors.RegistryError(
            422, f"{', '.join(sorted(unknown))}: not settings of this registry"
        )
    wanted = dict(state.config(subject) or {})
    wanted.pop("subject", None)
    level = given.get("compatibility", given.get("compatibilityLevel"))
    if level is not None:
        wanted["compatibilityLevel"] = levels.checked(level)
    normalize = given.get("normalize")
    if normalize is not None:
        if not isinstance(normalize, bool):
            raise errors.RegistryError(422, "normalize is neither true nor false")
        wanted["normalize"] = normalize
    return Decision(wanted, [records.config_record(subject, wanted)])


def delete_config(state: State, subject: str | None) -> Decision[dict[str, object]]:
    """The answer is what was set."""
    writable(state, subject)
    was = state.config(subject)
    if was is None:
        if subject is not None and not state.versions(subject, deleted=True):
            raise errors.subject_not_found(subject)
        if subject is not None:
            raise errors.no_compatibility_of(subject)
    kept = {key: value for key, value in (was or {}).items() if key != "subject"}
    return Decision(kept or state.config_in_force(None), [records.config_record(subject, None)])


def set_mode(state: State, subject: str | None, mode: object, *, force: bool) -> Decision[str]:
    wanted = mode.upper() if isinstance(mode, str) else ""
    if wanted not in MODES:
        raise errors.invalid_mode(mode)
    if wanted == "IMPORT" and not force and state.mode(subject) != "IMPORT":
        prefix = subject if subject is not None else ""
        is_scope = subject is None or subjects.is_context(subject)
        there = state.subjects(prefix) if is_scope else state.versions(subject or "")
        if there:
            raise errors.not_permitted(
                "Cannot import since found existing subjects"
                if is_scope
                else "Cannot import since found existing versions of the subject"
            )
    return Decision(wanted, [records.mode_record(subject, wanted)])


def delete_mode(state: State, subject: str) -> Decision[str]:
    """The answer is what it was."""
    was = state.mode(subject)
    if was is None:
        if not state.versions(subject, deleted=True):
            raise errors.subject_not_found(subject)
        raise errors.no_mode_of(subject)
    return Decision(was, [records.mode_record(subject, None)])


def writable(state: State, subject: str | None) -> str:
    """The mode in force. Raises not_permitted where nothing may be changed."""
    mode = state.mode_in_force(subject)
    if mode.startswith("READONLY"):
        named = "The registry" if subject is None else f"Subject {subject}"
        raise errors.not_permitted(f"{named} is in read-only mode")
    return mode
