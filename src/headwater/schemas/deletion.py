"""What a request to delete would write: first soft, then for good. As in `changes`, a look at the state."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.schemas import errors, records, subjects
from headwater.schemas.changes import Decision, writable
from headwater.schemas.records import Record, Version
from headwater.schemas.state import State


def delete_subject(state: State, subject: str, *, permanent: bool) -> Decision[list[int]]:
    """The answer are the versions that are deleted by it."""
    writable(state, subject)
    every = state.versions(subject, deleted=True)
    live = [each for each in every if not each.is_deleted]
    if not every:
        raise errors.subject_not_found(subject)
    if permanent and live:
        raise errors.subject_not_soft_deleted(subject)
    if not permanent and not live:
        raise errors.subject_soft_deleted(subject)
    gone = every if permanent else live
    for each in gone:
        _check_unreferenced(state, each, but=subject)
    made = (
        _gone_for_good(state, gone)
        if permanent
        else [records.subject_deleted(subject, gone[-1].version)]
    )
    return Decision([each.version for each in gone], [*made, *_settings_gone(state, subject)])


def delete_version(state: State, subject: str, number: int, *, permanent: bool) -> Decision[int]:
    """The answer is its number."""
    writable(state, subject)
    if not state.versions(subject, deleted=True):
        raise errors.subject_not_found(subject)
    found = state.version(subject, number, deleted=number != -1 or permanent)
    if found is None:
        raise errors.version_not_found(number)
    if permanent and not found.is_deleted:
        raise errors.version_not_soft_deleted(subject, found.version)
    if not permanent and found.is_deleted:
        raise errors.version_soft_deleted(subject, found.version)
    _check_unreferenced(state, found)
    if permanent:
        return Decision(found.version, _gone_for_good(state, [found]))
    made = [records.schema_record(found._replace(is_deleted=True))]
    if len(state.versions(subject)) == 1:
        made += _settings_gone(state, subject)
    return Decision(found.version, made)


def _settings_gone(state: State, subject: str) -> list[Record]:
    """With the last version of a subject that is not deleted, its own mode and level go."""
    made = [] if state.mode(subject) is None else [records.mode_record(subject, None)]
    return made if state.config(subject) is None else [*made, records.config_record(subject, None)]


def _gone_for_good(state: State, versions: Sequence[Version]) -> list[Record]:
    """With the ids first: before the records that told of them go."""
    gone = [records.schema_gone(each.subject, each.version) for each in versions]
    contexts = {subjects.context_of(each.subject) for each in versions}
    given = [records.ids_given(each, state.highest_id(each)) for each in sorted(contexts)]
    return [*given, *_ids_gone(state, versions), *gone]


def _ids_gone(state: State, versions: Sequence[Version]) -> list[Record]:
    """Of ids that no other version has."""
    named = {(subjects.context_of(each.subject), each.id): each.schema.guid for each in versions}
    places = {(each.subject, each.version) for each in versions}
    return [
        records.id_gone(*place, guid)
        for place, guid in named.items()
        if all((each.subject, each.version) in places for each in state.by_id(*place))
    ]


def _check_unreferenced(state: State, version: Version, but: str | None = None) -> None:
    found = state.referrers(version.subject, version.version, deleted=version.is_deleted)
    if any(each.subject != but for each in found):
        raise errors.reference_exists(
            "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject="
            f"{version.subject},version={version.version}}}."
        )
