"""What the records of `_schemas` amount to: subjects, versions, ids, configs, modes. In memory, and a view.

`follower` applies records, in the order of the log; everybody else asks. Questions and records may come
from several threads: each holds the lock for as long as it looks, and what it returns is its own.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Mapping
from typing import TypeVar

from headwater.schemas import ids, levels, records, subjects
from headwater.schemas.model import Schema
from headwater.schemas.parser import Direct, Parser
from headwater.schemas.records import Fact, Version

LEVEL, READWRITE = "BACKWARD", "READWRITE"


class State:
    def __init__(self, parser: Parser | None = None) -> None:
        self.parser: Parser = parser or Direct()
        """For whoever looks at the texts."""
        self._lock = threading.RLock()
        self._subjects: dict[str, dict[int, Version]] = {}
        self._ids: dict[tuple[str, int], dict[tuple[str, int], Version]] = {}
        """(context, id) → every version that has it."""
        self._same: dict[bytes, set[tuple[str, int]]] = {}
        """Fingerprint → every (context, id) that is this schema."""
        self._highest: dict[str, int] = {}
        self._noted: dict[str, int] = {}
        """What records of their own say of it."""
        self._gone: dict[tuple[str, int], str] = {}
        """(context, id) → the guid of what it was, before it was deleted for good."""
        self._configs: dict[str | None, Mapping[str, object]] = {}
        self._modes: dict[str | None, str] = {}
        self._referrers: dict[tuple[str, int], set[tuple[str, int]]] = {}

    # ---- records --------------------------------------------------------------------------------

    def clear(self) -> None:
        """The topic began anew; ids that were given stay given."""
        with self._lock:
            for each in (self._subjects, self._ids, self._same, self._noted, self._configs,
                         self._modes, self._referrers):  # fmt: skip
                each.clear()

    def apply(self, fact: Fact) -> None:
        with self._lock:
            if fact.kind == records.SCHEMA:
                self._schema(fact)
            elif fact.kind == records.CONFIG:
                _put(self._configs, fact.subject or None, fact.value)
            elif fact.kind == records.MODE:
                mode = None if fact.value is None else str(fact.value.get("mode"))
                _put(self._modes, fact.subject or None, mode)
            elif fact.kind == records.DELETE_SUBJECT and fact.value and fact.subject:
                self._delete_up_to(fact.subject, fact.value.get("version"))
            elif fact.kind == records.CLEAR_SUBJECT and fact.subject:
                for version in [*self._subjects.get(fact.subject, ())]:
                    self._forget(fact.subject, version)
            elif fact.kind == records.NOOP and fact.value:
                for context, highest in records.ids_of(fact.value):
                    self._highest[context] = max(highest, self._highest.get(context, 0))
                    if fact.subject is not None:
                        self._noted[context] = highest
                self._gone.update(records.gone_of(fact.value))

    def _schema(self, fact: Fact) -> None:
        if fact.subject is None:
            return
        self._forget(fact.subject, fact.version)
        found = records.version_of(fact)
        if found is None:
            return
        context, place = subjects.context_of(found.subject), (found.subject, found.version)
        self._subjects.setdefault(found.subject, {})[found.version] = found
        self._ids.setdefault((context, found.id), {})[place] = found
        self._same.setdefault(found.schema.fingerprint, set()).add((context, found.id))
        self._highest[context] = self._counted(context, self._highest.get(context, 0), found.id)
        for each in found.schema.references:
            named = (subjects.qualified(context, each.subject), each.version)
            self._referrers.setdefault(named, set()).add(place)

    def _counted(self, context: str, highest: int, identity: int) -> int:
        return ids.counted(highest, identity, lambda each: (context, each) in self._ids)

    def _forget(self, subject: str, version: int) -> None:
        found = self._subjects.get(subject, {}).pop(version, None)
        if found is None:
            return
        if not self._subjects[subject]:
            del self._subjects[subject]
        context = subjects.context_of(subject)
        holders = self._ids[context, found.id]
        holders.pop((subject, version), None)
        if not holders:
            del self._ids[context, found.id]
            self._same[found.schema.fingerprint].discard((context, found.id))
            if not self._same[found.schema.fingerprint]:
                del self._same[found.schema.fingerprint]
        for each in found.schema.references:
            named = (subjects.qualified(context, each.subject), each.version)
            self._referrers.get(named, set()).discard((subject, version))

    def _delete_up_to(self, subject: str, last: object) -> None:
        for number, found in [*self._subjects.get(subject, {}).items()]:
            if isinstance(last, int) and number <= last and not found.is_deleted:
                changed = found._replace(is_deleted=True)
                self._subjects[subject][number] = changed
                context = subjects.context_of(subject)
                self._ids[context, found.id][subject, number] = changed

    # ---- questions ------------------------------------------------------------------------------

    def subjects(self, prefix: str = "", *, deleted: bool = False, only: bool = False) -> list[str]:
        """Names that begin so, in order; `deleted`: also those whose versions are all soft deleted."""
        with self._lock:
            return sorted(
                name
                for name, versions in self._subjects.items()
                if name.startswith(prefix) and _is_wanted(versions.values(), deleted, only)
            )

    def versions(self, subject: str, *, deleted: bool = False) -> list[Version]:
        """Oldest first; `deleted`: with those that are soft deleted."""
        with self._lock:
            found = sorted(self._subjects.get(subject, {}).items())
        return [each for _, each in found if deleted or not each.is_deleted]

    def version(self, subject: str, number: int, *, deleted: bool = False) -> Version | None:
        """-1: the latest."""
        if number == -1:
            found = self.versions(subject, deleted=deleted)
            return found[-1] if found else None
        with self._lock:
            one = self._subjects.get(subject, {}).get(number)
        return one if one is not None and (deleted or not one.is_deleted) else None

    def by_id(self, context: str, identity: int) -> list[Version]:
        """Every version with this id, also those that are soft deleted."""
        with self._lock:
            return sorted(self._ids.get((context, identity), {}).values())

    def by_guid(self, guid: str) -> list[Version]:
        """Every version of this schema, in every context and under every id that it has."""
        try:
            fingerprint = uuid.UUID(guid).bytes
        except ValueError:
            return []
        with self._lock:
            ids_of_it = sorted(self._same.get(fingerprint, ()))
            return [version for each in ids_of_it for version in self.by_id(*each)]

    def id_of(self, context: str, schema: Schema) -> int | None:
        """The id that this schema has already, in whatever subject; the lowest, where it has several."""
        with self._lock:
            known = self._same.get(schema.fingerprint, ())
            return min((each for of, each in known if of == context), default=None)

    def was(self, context: str, identity: int) -> str | None:
        """The guid of what had this id, and was deleted for good; None: there was none."""
        with self._lock:
            return self._gone.get((context, identity))

    def gone_ids(self) -> dict[tuple[str, int], str]:
        return dict(self._gone)  # in one step

    def next_id(self, context: str) -> int | None:
        """For a schema that has none; None: all were given."""
        with self._lock:
            highest, given = self._highest.get(context, 0), (self._ids, self._gone)
            return ids.following(highest, lambda each: any((context, each) in g for g in given))

    def highest_id(self, context: str) -> int:
        """Of those that were given, in the sense of `ids`."""
        with self._lock:
            return self._highest.get(context, 0)

    def highest_ids(self) -> dict[str, int]:
        """Of every context."""
        with self._lock:
            return dict(self._highest)

    def given_ids(self) -> dict[str, int]:
        """The highest id of every context, where no record tells of it that stays there."""
        with self._lock:
            there = dict(self._noted)
            for context, identity in self._ids:
                there[context] = self._counted(context, there.get(context, 0), identity)
            return {
                context: highest
                for context, highest in self._highest.items()
                if highest > there.get(context, 0)
            }

    def referrers(self, subject: str, version: int, *, deleted: bool = False) -> list[Version]:
        """The versions whose schemas refer to this one."""
        with self._lock:
            named = sorted(self._referrers.get((subject, version), ()))
        found = [self.version(*each, deleted=deleted) for each in named]
        return [each for each in found if each is not None]

    def contexts(self) -> list[str]:
        with self._lock:
            return sorted({subjects.DEFAULT, *map(subjects.context_of, self._subjects)})

    def scopes(self) -> list[str]:
        """What has a level or a mode of its own: subjects, those to come too, and contexts."""
        with self._lock:
            return sorted(filter(None, {*self._configs, *self._modes}))

    def config(self, subject: str | None) -> Mapping[str, object] | None:
        """As it was set for just this; None: it was not."""
        with self._lock:
            return self._configs.get(subject)

    def mode(self, subject: str | None) -> str | None:
        return self._modes.get(subject)  # in one step

    def config_in_force(self, subject: str | None) -> dict[str, object]:
        """Of the subject, else of its context, else of all."""
        found: dict[str, object] = {"compatibilityLevel": LEVEL}
        for scope in reversed(_scopes(subject)):
            own = self.config(scope) or {}
            found |= {key: value for key, value in own.items() if levels.is_setting(key, value)}
        return found

    def mode_in_force(self, subject: str | None) -> str:
        if self.mode(None) == "READONLY_OVERRIDE":
            return "READONLY_OVERRIDE"
        return next((m for scope in _scopes(subject) if (m := self.mode(scope))), READWRITE)


Kept = TypeVar("Kept")


def _put(kept: dict[str | None, Kept], key: str | None, value: Kept | None) -> None:
    if value is None:
        kept.pop(key, None)
    else:
        kept[key] = value


def _scopes(subject: str | None) -> list[str | None]:
    """From the narrowest to the widest."""
    if subject is None:
        return [None]
    context = subjects.context_of(subject)
    own: list[str | None] = [subject]
    if context != subjects.DEFAULT and not subjects.is_context(subject):
        own.append(f":{context}:")
    return [*own, None]


def _is_wanted(versions: Iterable[Version], deleted: bool, only: bool) -> bool:
    is_live = any(not each.is_deleted for each in versions)
    return not is_live if only else is_live or deleted
