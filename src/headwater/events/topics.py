"""The topics of an aggregate: made where they are missing, refused where they would lose history.

    NAME             events; never compacted, never expiring
    NAME.answers     refusals, and commands with nothing to do; kept for a week
    NAME.snapshots   compacted; can be thrown away at any time
    NAME.commands    commands from processes that do not own the partition; a day
    NAME.replies     their answers; an hour
    dlq.NAME.owners  commands that are not understood (`headwater deadletters list`)
    NAME.saga.SAGA.retry, dlq.NAME.saga.SAGA   events that a saga could not handle (`letters`)

All but the replies and the dead letters have as many partitions as the events, and the same partition
for the same aggregate.

Event classes register themselves: each version of an event is a subject of the project's registry, where the
environment names one (HEADWATER_REGISTRY), with the JSON Schema of its `data`:

    NAME-Deposited       the first version of the event, as the log names it (`upcasters`)
    NAME-Deposited.v2    the second

Within a version a class may change so that what was written is still read by it: a field may come that has a
default. A change that goes further is refused before anything is written, until an upcaster makes it the next
version. So is a program that is older than the log: one that lacks the upcasters of a registered version.
"""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headwater.client import creation, settings
from headwater.client.cluster import Cluster
from headwater.client.creation import Wanted
from headwater.client.librdkafka import AdminClient
from headwater.client.partitioner import by_murmur2
from headwater.events import models
from headwater.events.aggregate import Aggregate
from headwater.events.errors import BadDefinition, BadTopic
from headwater.events.upcasters import tag, untag, versions

if TYPE_CHECKING:
    from headwater.schemas.client import RegistryClient
    from headwater.schemas.model import Schema

TIMEOUT_S = 30.0
DAY_MS = 86_400_000
REGISTRY = "HEADWATER_REGISTRY"
_CONFLICT, _MISSING = 409, 404
_SHOWN = 600
_log = logging.getLogger("headwater.events")


def ensure(cluster: Cluster, admin: AdminClient, aggregate: Aggregate[Any], partitions: int) -> int:
    """Make what is missing, check what is there, and say how many partitions there are.

    First of all the events are registered: a class that cannot read the log must not write to it."""
    register(aggregate)
    kept = {"retention.ms": "-1", "retention.bytes": "-1"}
    count = len(creation.ensure_one(cluster, aggregate.name, partitions, kept).leaders)
    _check(admin, aggregate.name)
    compact = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"}
    found = creation.ensure(
        cluster,
        [
            Wanted(aggregate.answers, count, {"retention.ms": str(7 * DAY_MS)}),
            Wanted(aggregate.snapshots, count, compact),
            Wanted(aggregate.inbox, count, {"retention.ms": str(DAY_MS)}),
            Wanted(aggregate.replies, min(count, 8), {"retention.ms": str(DAY_MS // 24)}),
            Wanted(aggregate.letters, 1),
        ],
    )
    for name in (aggregate.answers, aggregate.snapshots, aggregate.inbox):
        if len(found[name].leaders) != count:
            raise BadTopic(
                f"{name} has {len(found[name].leaders)} partitions and {aggregate.name} has {count}",
                hint="an aggregate's records must lie in the same partition of each",
            )
    return count


def ensure_letters(cluster: Cluster, source: str, letters: str, retry: str) -> None:
    """A saga's dead letters, and where they are sent back to."""
    known = cluster.metadata([source]).topics.get(source)
    if known is None:
        raise BadTopic(f"there is no topic {source}", hint="start its application first")
    count = len(known.leaders)
    week = {"retention.ms": str(7 * DAY_MS)}
    creation.ensure(cluster, [Wanted(letters, 1), Wanted(retry, count, week)])


def _check(admin: AdminClient, name: str) -> None:
    """History must stay: no compaction, no expiry."""
    found = settings.of_topic(admin, name, TIMEOUT_S)
    configs = {key: entry.value for key, entry in found.items()}
    policy = configs.get("cleanup.policy") or "delete"
    if "compact" in policy:
        raise BadTopic(
            f"{name} is compacted by key, which would leave the last event of each aggregate only",
            hint=f"headwater topics alter {name} --set cleanup.policy=delete",
        )
    for setting in ("retention.ms", "retention.bytes"):
        if configs.get(setting, "-1") != "-1":
            raise BadTopic(
                f"{name} has {setting}={configs[setting]}: its history would be deleted",
                hint=f"headwater topics alter {name} --set {setting}=-1",
            )


@lru_cache(maxsize=200_000)
def partition_of(id: str, partitions: int) -> int:
    """Where Kafka's own partitioner would put the id; so what is unique is decided in one place."""
    return by_murmur2(id.encode(), partitions)


# ---- schemas of the events ------------------------------------------------------------------------


def register(aggregate: Aggregate[object]) -> None:
    """Raises BadDefinition where an event is not what its version was; nothing without a registry."""
    url = os.environ.get(REGISTRY)
    if not url:
        return
    from headwater.schemas.client import shared

    client = shared(url)
    present = versions(
        aggregate.name, [each.__name__ for each in aggregate.events], aggregate.upcasters
    )
    _must_know(aggregate, present, client.subjects(f"{aggregate.name}-"))
    for kind in aggregate.events:
        text = models.schema_text(kind)
        if text is None:
            _log.warning("%s has no JSON Schema, and is not registered", kind.__name__)
        else:
            _register(client, aggregate, tag(kind.__name__, present[kind.__name__]), text)


def _must_know(aggregate: Aggregate[object], present: dict[str, int], subjects: list[str]) -> None:
    for subject in subjects:
        name, version = untag(subject.removeprefix(f"{aggregate.name}-"))
        if version > present.get(name, version):
            raise BadDefinition(
                f"{aggregate.name}: {tag(name, version)} was written, and this program knows "
                f"{tag(name, present[name])}",
                hint="start the newer program; or declare its upcasters",
            )


def _register(client: RegistryClient, aggregate: Aggregate[object], tagged: str, text: str) -> None:
    from headwater.schemas.errors import RegistryError
    from headwater.schemas.model import JSON, Schema

    subject, (name, version) = f"{aggregate.name}-{tagged}", untag(tagged)
    schema = Schema(text, JSON)
    # Whatever level the registry has: what is in the log, the class has to read.
    if said := _unreadable(client, subject, schema):
        raise BadDefinition(
            f"{aggregate.name}: the class {name} cannot read what was written as {tagged}: "
            f"{said[:_SHOWN]}",
            hint=f"make it the next version, with @upcaster({name!r}, {version}); or undo the change",
        )
    try:
        client.register(subject, schema)
    except RegistryError as error:
        if error.status != _CONFLICT:
            raise
        raise BadDefinition(
            f"{aggregate.name}: the registry does not take the class {name}: {error.sentence[:_SHOWN]}",
            hint=f"headwater schemas compat BACKWARD --subject {subject}; or undo the change",
        ) from None


def _unreadable(client: RegistryClient, subject: str, schema: Schema) -> str:
    """What of the subject's versions the schema does not read; empty: nothing."""
    from headwater.schemas import kinds
    from headwater.schemas.errors import RegistryError

    try:
        numbers = client.versions(subject)
    except RegistryError as error:
        if error.status != _MISSING:
            raise
        return ""
    reader = kinds.parse(schema.kind, schema.text, ())
    for number in reversed(numbers):
        written = client.version(subject, number).schema
        if written.kind == schema.kind and written.text != schema.text:
            older = kinds.parse(written.kind, written.text, (), is_new=False)
            if found := reader.unreadable(older):
                return "; ".join(each.said("new", "old") for each in found)
    return ""
