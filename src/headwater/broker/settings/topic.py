"""A topic's configs: names, rules, defaults, and the `LogConfig` that they amount to.

CreateTopics and the config APIs check overrides here before the catalogue keeps them; the broker
calls `topic_config` when it opens a partition or a config changes. A topic keeps only what was set
for it (text by name); the rest follows the broker's settings, so a change there reaches every topic
that has no word of its own.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

from headwater.broker.settings.definitions import (
    CLUSTER_WIDE,
    LONG_MAX,
    BadValue,
    Check,
    Definition,
    Kind,
    at_least,
    by_name,
    parse,
)
from headwater.broker.settings.values import BROKER, Settings
from headwater.log.config import INDEX_BYTES_MIN, LogConfig

_log = logging.getLogger(__name__)

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
WEEK_MS = 7 * 24 * HOUR_MS


def _follows(name: str, setting: str) -> Definition:
    """A config that is one broker setting, topic by topic."""
    broker = BROKER[setting]
    return broker._replace(name=name, update=CLUSTER_WIDE, synonyms=((setting, 1),))


def _time(
    name: str, default: int, doc: str, check: Check, *synonyms: tuple[str, int], effect: bool = True
) -> Definition:
    """A time that the broker knows in several units."""
    return Definition(name, Kind.LONG, default, doc, check, CLUSTER_WIDE, effect, synonyms)


def _without_effect(
    name: str, kind: Kind, default: object, doc: str, check: Check | None = None
) -> Definition:
    return Definition(name, kind, default, doc, check, CLUSTER_WIDE, effect=False)


def _throttled(name: str) -> Definition:
    says = (
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )

    def problem(value: list[str]) -> str | None:
        fits = value == ["*"] or all(re.fullmatch(r"[0-9]+:[0-9]+", item) for item in value)
        return None if fits else says

    check = Check(problem, "*, or PARTITION:BROKER, …", lambda value: f"[{', '.join(value)}]")
    return _without_effect(name, Kind.LIST, [], "There are no followers to slow.", check)


_NO_TIER = "There is no remote tier."
_SCHEMAS = "Whether values must carry the id of a schema of the subject TOPIC-value."

TOPIC: dict[str, Definition] = by_name(
    [
        (
            _follows("cleanup.policy", "log.cleanup.policy"),
            _time(
                "retention.ms",
                WEEK_MS,
                "Age at which segments go; -1 for no bound.",
                at_least(-1),
                ("log.retention.ms", 1),
                ("log.retention.minutes", MINUTE_MS),
                ("log.retention.hours", HOUR_MS),
            ),
            _follows("retention.bytes", "log.retention.bytes"),
            _follows("segment.bytes", "log.segment.bytes"),
            Definition(
                "internal.segment.bytes",
                Kind.INT,
                None,
                "segment.bytes for tests, without its lower bound; shown only where set.",
                at_least(1),
                CLUSTER_WIDE,
            ),
            _time(
                "segment.ms",
                WEEK_MS,
                "Age at which a segment is closed.",
                at_least(1),
                ("log.roll.ms", 1),
                ("log.roll.hours", HOUR_MS),
            ),
            _time(
                "segment.jitter.ms",
                0,
                "Random part taken off that age, so that segments do not all close together.",
                at_least(0),
                ("log.roll.jitter.ms", 1),
                ("log.roll.jitter.hours", HOUR_MS),
            ),
            _follows("segment.index.bytes", "log.index.size.max.bytes"),
            _follows("index.interval.bytes", "log.index.interval.bytes"),
            _follows("file.delete.delay.ms", "log.segment.delete.delay.ms"),
        ),
        (
            _follows("delete.retention.ms", "log.cleaner.delete.retention.ms"),
            _follows("min.cleanable.dirty.ratio", "log.cleaner.min.cleanable.ratio"),
            _follows("min.compaction.lag.ms", "log.cleaner.min.compaction.lag.ms"),
            _follows("max.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
        ),
        (
            _follows("max.message.bytes", "message.max.bytes"),
            _follows("compression.type", "compression.type"),
            _follows("compression.gzip.level", "compression.gzip.level"),
            _follows("compression.lz4.level", "compression.lz4.level"),
            _follows("compression.zstd.level", "compression.zstd.level"),
            _follows("message.timestamp.type", "log.message.timestamp.type"),
            _follows("message.timestamp.before.max.ms", "log.message.timestamp.before.max.ms"),
            _follows("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
            _follows("durability", "durability"),
            _without_effect("schema.validation", Kind.BOOLEAN, False, _SCHEMAS)._replace(
                effect=True
            ),
        ),
        (
            _follows("flush.messages", "log.flush.interval.messages"),
            _time(
                "flush.ms",
                LONG_MAX,
                BROKER["log.flush.interval.ms"].doc,
                at_least(0),
                ("log.flush.interval.ms", 1),
                ("log.flush.scheduler.interval.ms", 1),
                effect=False,
            ),
            _follows("preallocate", "log.preallocate"),
            _follows("min.insync.replicas", "min.insync.replicas"),
            _follows("unclean.leader.election.enable", "unclean.leader.election.enable"),
            _throttled("leader.replication.throttled.replicas"),
            _throttled("follower.replication.throttled.replicas"),
            _follows("local.retention.bytes", "log.local.retention.bytes"),
            _follows("local.retention.ms", "log.local.retention.ms"),
            _without_effect("remote.storage.enable", Kind.BOOLEAN, False, _NO_TIER),
            _without_effect("remote.log.copy.disable", Kind.BOOLEAN, False, _NO_TIER),
            _without_effect("remote.log.delete.on.disable", Kind.BOOLEAN, False, _NO_TIER),
        ),
    ]
)
"""Every config of a topic by name."""

_FIELDS = {
    "segment.bytes": "segment_bytes",
    "segment.ms": "segment_ms",
    "segment.jitter.ms": "segment_jitter_ms",
    "segment.index.bytes": "segment_index_bytes",
    "index.interval.bytes": "index_interval_bytes",
    "retention.bytes": "retention_bytes",
    "retention.ms": "retention_ms",
    "delete.retention.ms": "delete_retention_ms",
    "min.cleanable.dirty.ratio": "min_cleanable_dirty_ratio",
    "min.compaction.lag.ms": "min_compaction_lag_ms",
    "max.compaction.lag.ms": "max_compaction_lag_ms",
    "max.message.bytes": "max_message_bytes",
    "compression.type": "compression_type",
    "compression.gzip.level": "compression_gzip_level",
    "compression.lz4.level": "compression_lz4_level",
    "compression.zstd.level": "compression_zstd_level",
    "message.timestamp.type": "timestamp_type",
    "message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "timestamp_after_max_ms",
    "durability": "durability",
}


def topic_config(settings: Settings, overrides: Mapping[str, str]) -> LogConfig:
    """How the logs of a topic behave: its own configs over the broker's settings.

    An override that this version cannot read is left out with a warning, as `set_dynamic` does.
    """
    own = _readable(overrides)
    values = {
        field: own[name] if name in own else topic_default(settings, TOPIC[name])
        for name, field in _FIELDS.items()
    }
    values["segment_bytes"] = own.get("internal.segment.bytes", values["segment_bytes"])
    values["segment_index_bytes"] = max(values["segment_index_bytes"], INDEX_BYTES_MIN)
    policy = own.get("cleanup.policy", settings.get("log.cleanup.policy"))
    return LogConfig(compact="compact" in policy, delete="delete" in policy, **values)


def topic_default(settings: Settings, definition: Definition) -> Any:
    """What a topic has that does not set this config: the first of its broker settings set."""
    for setting, factor in definition.synonyms:
        value = settings.get(setting)
        if value is not None:
            if definition.name == "retention.ms" and value < 0:
                return -1  # also of -1 hours: any negative time is "no bound"
            return value * factor if factor != 1 else value
    return definition.default


def validate_topic_configs(
    overrides: Mapping[str, str | None], settings: Settings | None = None
) -> dict[str, Any]:
    """The overrides as values, or `BadValue` with Kafka's sentence (INVALID_CONFIG).

    With `settings`, what the topic inherits takes part where two configs must agree.
    """
    values: dict[str, Any] = {}
    for name, text in overrides.items():
        if name not in TOPIC:
            raise BadValue(f"Unknown topic config name: {name}")
        if text is None:
            raise BadValue(f"Null value not supported for topic configs: {name}")
        values[name] = parse(TOPIC[name], text)
    low, high = "min.compaction.lag.ms", "max.compaction.lag.ms"
    if low in values or high in values:
        least, most = (values.get(name, _inherited(settings, name)) for name in (low, high))
        if least > most:
            raise BadValue(f"conflict topic config setting {low} ({least}) > {high} ({most})")
    if values.get("remote.storage.enable"):
        raise BadValue(
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )
    return values


def check_topic_overrides(
    overrides: Mapping[str, str | None], settings: Settings | None = None
) -> str | None:
    """What is wrong with the configs that somebody wants for a topic, in one sentence, or None."""
    try:
        validate_topic_configs(overrides, settings)
    except BadValue as error:
        return str(error)
    return None


def _inherited(settings: Settings | None, name: str) -> Any:
    return TOPIC[name].default if settings is None else topic_default(settings, TOPIC[name])


def _readable(overrides: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in overrides.items():
        try:
            values[name] = parse(TOPIC[name], text)
        except (BadValue, KeyError) as error:
            _log.warning("topic config %s is left out: %s", name, error)
    return values
