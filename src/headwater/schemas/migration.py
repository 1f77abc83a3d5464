"""Schemas of one registry into another, ids and versions kept: what has to be written, or why it cannot be.

Called by `headwater schemas import`. What is there already is left alone, so it may run again: a version that
is deleted on one side only, a level or a mode that is another here stays as it is here, and is told
(`differing`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from headwater.schemas import records, subjects
from headwater.schemas.changes import Decision
from headwater.schemas.errors import not_permitted
from headwater.schemas.records import Record, Version
from headwater.schemas.state import State


def missing(source: State, target: State) -> Decision[int]:
    """The next part of what the target lacks; the answer is how many records that is, 0 at the end."""
    found = next(records.batches(_wanted(source, target)), [])
    return Decision(len(found), found)


def count(source: State, target: State) -> int:
    """How many records that would be, in all."""
    return len(_wanted(source, target))


def _wanted(source: State, target: State) -> list[Record]:
    made: list[Record] = []
    _check_ids(_versions(source))
    # Those without references come first anyway: a schema is registered after what it refers to.
    for version in sorted(
        _versions(source), key=lambda each: (each.id, each.subject, each.version)
    ):
        there = target.version(version.subject, version.version, deleted=True)
        _check(version, there, target)
        if there is None:
            made.append(records.schema_record(version))
    for scope in [None, *source.scopes()]:
        config, mode = source.config(scope), source.mode(scope)
        if config is not None and target.config(scope) is None:
            made.append(records.config_record(scope, _settings(config)))
        if mode is not None and target.mode(scope) is None:
            made.append(records.mode_record(scope, mode))
    gone = target.gone_ids()
    for place, guid in source.gone_ids().items():
        if place not in gone and not target.by_id(*place) and not source.by_id(*place):
            made.append(records.id_gone(*place, guid))
    return made + _ids_beyond(source, target, made)


def _ids_beyond(source: State, target: State, made: list[Record]) -> list[Record]:
    """How far the source has given ids, where the target will not have come so far by what is `made`."""
    after = State()
    noted = [records.ids_given(*each) for each in target.highest_ids().items()]
    for fact in filter(None, (records.decoded(*each) for each in noted + made)):
        after.apply(fact)
    return [
        records.ids_given(context, highest)
        for context, highest in source.highest_ids().items()
        if highest > after.highest_id(context)
    ]


def differing(source: State, target: State) -> list[str]:
    """What is otherwise there than here, and was left as it is: a sentence each."""
    said = []
    for version in _versions(source):
        there = target.version(version.subject, version.version, deleted=True)
        if there is not None and there.is_deleted != version.is_deleted:
            word = "is" if there.is_deleted else "is not"
            said.append(f"version {version.version} of {version.subject} {word} deleted here")
    for scope in [None, *source.scopes()]:
        named = "all subjects" if scope is None else scope
        config, own = source.config(scope), target.config(scope)
        if config is not None and own is not None and _settings(config) != _settings(own):
            said.append(f"the level of {named} is {own.get('compatibilityLevel')} here")
        mode, own_mode = source.mode(scope), target.mode(scope)
        if mode is not None and own_mode is not None and own_mode != mode:
            said.append(f"the mode of {named} is {own_mode} here, and {mode} there")
    return said


def _settings(config: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in config.items() if key != "subject"}


def _versions(state: State) -> list[Version]:
    return [
        version
        for subject in state.subjects(deleted=True)
        for version in state.versions(subject, deleted=True)
    ]


def _check_ids(versions: Iterable[Version]) -> None:
    """Raises not_permitted where one id is of two schemas: data that name it could mean either."""
    first: dict[tuple[str, int], Version] = {}
    for each in versions:
        other = first.setdefault((subjects.context_of(each.subject), each.id), each)
        if replace(each.schema, metadata=None, rules=None) != replace(
            other.schema, metadata=None, rules=None
        ):
            raise not_permitted(
                f"the id {each.id} is that of version {other.version} of {other.subject} here and of another "
                f"schema, version {each.version} of {each.subject}: nothing was imported"
            )


def _check(version: Version, there: Version | None, target: State) -> None:
    """Raises not_permitted where the target has another schema in that place, or under that id."""
    if there is not None and there.id != version.id:
        raise not_permitted(
            f"version {version.version} of {version.subject} has the id {there.id} there and {version.id} "
            "here, and data name it by either: nothing more was imported"
        )
    if there is not None and there.schema.fingerprint != version.schema.fingerprint:
        raise not_permitted(
            f"version {version.version} of {version.subject} is another schema there: nothing more "
            "was imported"
        )
    context = subjects.context_of(version.subject)
    was = target.was(context, version.id)
    if was is not None and was != version.schema.guid:
        raise not_permitted(
            f"the id {version.id} of {version.subject} was another schema's there, which was permanently "
            "deleted, and data may name it: nothing more was imported"
        )
    holders = target.by_id(context, version.id)
    if holders and holders[0].schema.fingerprint != version.schema.fingerprint:
        raise not_permitted(
            f"the id {version.id} of {version.subject} is that of {holders[0].subject} there: "
            "nothing more was imported"
        )
