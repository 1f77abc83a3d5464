"""The schemas that a query's values name, and whether the query may go on by the one that it began with.

Asked by `registry` for each id that it meets; by `pipelines` for schemas themselves.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from headwater.client.errors import QueryError
from headwater.schemas.client import shared
from headwater.schemas.lookup import RegistryLookup
from headwater.schemas.reader import unreadable
from headwater.schemas.values.codecs import Codecs, Found
from headwater.schemas.values.errors import SchemaNotFound

if TYPE_CHECKING:
    from headwater.spark.source.options import SourceOptions


class BreakingSchema(QueryError):
    """Records come with a schema that the query cannot be read by; it would lose what they say."""


class SchemaMoved(QueryError):
    """The topic's latest schema is another than the query's; whoever started it looks at its columns, and
    decides what becomes of them."""


@lru_cache(maxsize=8)
def lookup(url: str) -> RegistryLookup:
    return RegistryLookup(shared(url))


def schemas_of(options: SourceOptions, topic: str) -> QuerySchemas:
    """What is known of the schemas of a topic's values."""
    said = options.registry
    assert said is not None
    pin, looked_at = said.pins.get(topic), said.watched.get(topic)
    if pin is None or looked_at is None:
        return known(said.url, pin)
    return known(said.url, pin, Watch(topic, looked_at))


class Watch(NamedTuple):
    """For columns that come and go."""

    topic: str
    looked_at: int


@lru_cache(maxsize=256)
def known(registry: str, pin: int | None, watch: Watch | None = None) -> QuerySchemas:
    """One for all tasks of a process that read by the same schema."""
    return QuerySchemas(registry, pin, watch)


class QuerySchemas:
    """What a query knows of the schemas that its values name; for several threads."""

    def __init__(self, registry: str, pin: int | None, watch: Watch | None) -> None:
        self._lookup = lookup(registry)
        self._watch = watch
        self.pinned = None if pin is None else self._pinned(pin)
        self.codecs = Codecs(self._lookup, self.pinned, for_columns=True)
        self._known: dict[int, Found] = {}

    def _pinned(self, identity: int) -> Found:
        found = self._lookup.by_id(identity)
        if found is None:
            raise QueryError(
                f"The registry has no schema {identity}, with which the query was started."
            )
        return found

    def found(self, identity: int) -> Found:
        """Raises SchemaNotFound, BreakingSchema, SchemaMoved."""
        known = self._known.get(identity)
        if known is None:
            known = self._lookup.by_id(identity)
            if known is None:
                raise SchemaNotFound(f"no schema has the id {identity}")
            if self.pinned is not None and self.pinned.id != identity:
                self._look_at_latest(self.pinned)
                _refuse_breaking(self.pinned, known)
            self._known[identity] = known
        return known

    def _look_at_latest(self, pinned: Found) -> None:
        """Not at the schema of the record: an older one has fewer columns, and nobody has removed them. Nor
        at columns: whoever goes on must know of every schema that was read past."""
        watch = self._watch
        if watch is None:
            return
        version = self._lookup.version(f"{watch.topic}-value")
        if version is None or version.id in (pinned.id, watch.looked_at):
            return
        raise SchemaMoved(
            f"The latest schema of {watch.topic}-value, {version.id}, is another than {pinned.id}, with "
            "which the query was started."
        )


def _refuse_breaking(pinned: Found, found: Found) -> None:
    if said := unreadable(pinned, found):
        raise BreakingSchema(
            f"Records have the schema {found.id}, and the query was started with {pinned.id}, which "
            f"cannot read it: {'; '.join(said)[:1500]}.",
            hint="Rebuild the view to have the columns of the latest schema; or give schema=.",
        )
