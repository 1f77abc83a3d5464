"""The names that belong to the broker and to headwater's programs: who owns them, who may write them.

One rule for every way in (CreateTopics, Metadata, Produce, CreatePartitions, AlterConfigs, a share group's
dead letters), with an authorizer or without: `Topics` and the handlers ask here and nowhere else.

- `__headwater_catalogue` and Kafka's `__cluster_metadata` are logs, but never topics.
- A name that begins with `__headwater_` is headwater's: one that is not in the table cannot be created.
  Nor can one that Kafka takes for the same as a name of the table ('.' and '_' are one letter to it): it
  would keep the owner from creating its own.
- Anybody who may create topics may create one of the table (Kafka allows it too, and a consumer's Metadata
  does it unasked), but it gets its owner's number of partitions, where nobody gave one, and always the
  configs that its owner relies on. Nobody can alter those; a topic that has others is put right at start.
- A topic with `clients_write=False` is written by the broker alone; Produce is answered
  INVALID_TOPIC_EXCEPTION, as Kafka answers for its own three. The others are how programs outside the
  broker ask it for something or keep what they know, as ordinary clients; where there is an authorizer,
  whoever changes a `__headwater_` topic must be allowed to alter the cluster as well
  (`security.rules.permission`).
- Kafka's own three are what a coordinator knows, and its memory is a view of them: they cannot be deleted
  (INVALID_TOPIC_EXCEPTION, as for the deletion of their records). Kafka would begin anew with nothing,
  while consumers and producers go on. Nor can the three that say who did what: whoever did it would take that
  away. The others can: the owner makes its topic again when it is next needed.
- `__headwater_keys` holds secrets, `_schemas` is a registry's, `__headwater_changes` and
  `__headwater_edge_changes` tell of everybody: an ACL for every topic (`*`) does not reach them, only one
  that names them or a prefix of them (`named`). The first two steer nothing here, so who writes them need
  not be allowed to alter the cluster.
- The partition of a record in Kafka's own three is a hash of its key: they do not grow (`hashed`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headwater.broker.settings import Settings

PREFIX = "__headwater_"
CATALOGUE = "__headwater_catalogue"
CLUSTER_METADATA = "__cluster_metadata"
CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
EXCISIONS = "__headwater_excisions"
AUDIT = "__headwater_audit"
CHANGES = "__headwater_changes"
EDGE_CHANGES = "__headwater_edge_changes"
HEALTH = "__headwater_health"
SUBJECT_KEYS = "__headwater_keys"
CLIENT_METRICS = "__client_metrics"
SCHEMAS = "_schemas"

KAFKAS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE})
INTERNAL = KAFKAS | {HEALTH, CHANGES}
"""Those that clients are told are internal: they speak of this broker, and patterns, copies to another
cluster and people who list topics pass them over."""
TESTIMONY = frozenset({AUDIT, CHANGES, EDGE_CHANGES})  # nobody takes it away before its time
NEVER_TOPICS = frozenset({CATALOGUE, CLUSTER_METADATA})
NEVER_CUT = frozenset({CATALOGUE, CONSUMER_OFFSETS, TRANSACTION_STATE, AUDIT})
"""Nothing is ever deleted from their front."""

_COMPACTED = {"cleanup.policy": "compact"}
_DELETED = {"cleanup.policy": "delete"}
_KEPT_FOR_EVER = {**_DELETED, "retention.ms": "-1", "retention.bytes": "-1"}
_WEEK_MS = 7 * 24 * 60 * 60 * 1000
_NO_SCHEMAS = "schemas that were registered there, and their ids, are not known"
_TESTIMONY = {**_DELETED, "retention.ms": str(365 * 86_400_000), "retention.bytes": str(1024**3)}
_SIGNED = {**_TESTIMONY, "message.timestamp.type": "LogAppendTime"}  # as its author: `authorship`
_WHO_LOST = "who made the changes that were written there is not told any more"


def _medium(_: Settings) -> Mapping[str, str]:
    return {"segment.bytes": str(16 * 1024**2)}


def _segments(setting: str, **more: str) -> Callable[[Settings], dict[str, str]]:
    """Segments of the size that a setting says: below 1 MiB only Kafka's internal name takes it."""

    def configs(settings: Settings) -> dict[str, str]:
        size = settings.get(setting)
        name = "segment.bytes" if size >= 1024 * 1024 else "internal.segment.bytes"
        return {name: str(size), **{key.replace("_", "."): value for key, value in more.items()}}

    return configs


@dataclass(frozen=True, slots=True)
class ReservedTopic:
    """One row of the table."""

    owner: str
    clients_write: bool
    fixed: Mapping[str, str] = field(default_factory=dict)
    """Configs that the owner relies on: always these."""
    defaults: Callable[[Settings], Mapping[str, str]] = lambda _: {}
    """Configs that it gets where whoever creates it gives none."""
    partitions: str = ""
    """The setting with their number; else there is one."""
    loss: str = "what these records said is not known"
    """What it means when records of it cannot be read."""
    named: bool = False
    """Whether rights to it must name it: not everybody who may read all topics is to read it."""

    @property
    def hashed(self) -> bool:
        """Whether a record's partition is a hash of its key, so that their number must stay."""
        return bool(self.partitions)

    def count(self, settings: Settings) -> int:
        return int(settings.get(self.partitions)) if self.partitions else 1

    def configs(self, settings: Settings, given: Mapping[str, str]) -> dict[str, str]:
        return {**self.defaults(settings), **given, **self.fixed}


TABLE: Mapping[str, ReservedTopic] = {
    CONSUMER_OFFSETS: ReservedTopic(
        "the group coordinator",
        False,
        _COMPACTED,
        _segments("offsets.topic.segment.bytes", compression_type="producer"),
        "offsets.topic.num.partitions",
        "groups that committed there may go back to an older commit",
    ),
    TRANSACTION_STATE: ReservedTopic(
        "the transaction coordinator",
        False,
        _COMPACTED,
        _segments("transaction.state.log.segment.bytes", compression_type="uncompressed"),
        "transaction.state.log.num.partitions",
        "transactions that were written there may be as they were before",
    ),
    SHARE_GROUP_STATE: ReservedTopic(
        "the share coordinator, which moves its start itself",
        False,
        _KEPT_FOR_EVER,
        _segments("share.coordinator.state.topic.segment.bytes"),
        "share.coordinator.state.topic.num.partitions",
        "share groups may deliver records once more that they had settled there",
    ),
    EXCISIONS: ReservedTopic(
        "the broker; programs write requests",
        True,
        _KEPT_FOR_EVER,
        loss="requests to excise that were written there are not carried out: ask again",
    ),
    AUDIT: ReservedTopic(
        "the broker", False, _KEPT_FOR_EVER, loss="what was excised there is not told any more"
    ),
    CHANGES: ReservedTopic(
        "the broker: who changed what", False, _TESTIMONY, _medium, loss=_WHO_LOST, named=True
    ),
    EDGE_CHANGES: ReservedTopic(
        "edges, console: who changed what", True, _SIGNED, loss=_WHO_LOST, named=True
    ),
    HEALTH: ReservedTopic(
        "the broker: how it is",
        False,
        _COMPACTED,
        lambda _: {"segment.bytes": str(1024**2), "segment.ms": "3600000"},
        loss="what was told of the broker's health before this start may be shown on",
    ),
    CLIENT_METRICS: ReservedTopic(
        "the broker",
        False,
        defaults=lambda _: {"retention.ms": str(_WEEK_MS), "segment.bytes": str(16 * 1024**2)},
    ),
    SUBJECT_KEYS: ReservedTopic(
        "events: keys of personal data",
        True,
        _COMPACTED,
        lambda _: {"min.cleanable.dirty.ratio": "0.01", "segment.ms": "3600000"},
        loss="what was sealed by keys that were written there cannot be read",
        named=True,
    ),
    SCHEMAS: ReservedTopic("the schema registry", True, _COMPACTED, loss=_NO_SCHEMAS, named=True),
    "__headwater_webhooks": ReservedTopic("edges: webhook subscriptions", True, _COMPACTED),
    "__headwater_deliveries": ReservedTopic("edges: how deliveries to them went", True),
    "__headwater_capture": ReservedTopic("captures: their positions", True, _COMPACTED),
    "__headwater_verified": ReservedTopic("views: when they were verified", True, _COMPACTED),
    "__headwater_progress": ReservedTopic(
        "pipelines: how far they are",
        True,
        defaults=lambda _: {"cleanup.policy": "delete", "retention.ms": str(_WEEK_MS)},
    ),
}
_OF_SOMEBODY = re.compile(r"__headwater_[a-zA-Z0-9._-]+_(keys|requests)")
_BY_END = {"keys": ReservedTopic("edges", True), "requests": ReservedTopic("captures", True)}


def find(name: str) -> ReservedTopic | None:
    """The row of a topic; None: it is nobody's but its users'."""
    found = _OF_SOMEBODY.fullmatch(name)
    return TABLE.get(name) or (None if found is None else _BY_END[found[1]])


def why_not(name: str) -> str | None:
    """Why no topic may be called this, in one sentence; None: it may."""
    if name in NEVER_TOPICS:
        return f"{name} is the broker's own log and cannot be a topic."
    if find(name) is not None:
        return None
    same = name.replace(".", "_")
    if same.startswith(PREFIX) or same in TABLE or same in NEVER_TOPICS:
        return f"Names like {name} are reserved: those that begin with {PREFIX} are headwater's."
    return None


def configs(name: str, settings: Settings, given: Mapping[str, str]) -> dict[str, str]:
    """What a topic gets that is created with these configs."""
    row = find(name)
    return dict(given) if row is None else row.configs(settings, given)


def broken(name: str, configs: Mapping[str, str]) -> dict[str, str]:
    """Configs that the owner relies on and that are not as they must be, with what they must be."""
    row = find(name)
    fixed = {} if row is None else row.fixed
    return {key: value for key, value in fixed.items() if configs.get(key) != value}


def java_hash(text: str) -> int:
    """`abs(String.hashCode())` as Kafka's Utils.abs does it: by it Kafka chooses the partition."""
    value = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value & 0x7FFFFFFF


def why_kept(name: str) -> str | None:
    """Why a topic cannot be deleted, in one sentence; None: it can."""
    if name in KAFKAS:
        return f"{name} is all that its coordinator knows; it cannot be deleted."
    if name in TESTIMONY:
        return f"{name} says who did what; neither it nor its records can be deleted."
    return None


def needs_a_name(name: str) -> bool:
    """Whether only rights that name it, or a prefix of it, reach it."""
    row = find(name)
    return row is not None and row.named


def holds_secrets(name: str) -> bool:
    """Whether programs keep secrets there: it steers nothing."""
    return needs_a_name(name) and not written_by_broker(name) and name not in TESTIMONY


def excisable(name: str) -> bool:
    """Whether records of a topic may be taken out for good: all but the broker's own."""
    return not name.startswith("__") or holds_secrets(name)


def written_by_broker(name: str) -> bool:
    """Whether no client may write to it."""
    row = find(name)
    return row is not None and not row.clients_write
