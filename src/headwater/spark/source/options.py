"""The source's options: those of Spark's Kafka source, and a few of our own.

Parsed in Spark's planning process for every query, so that a mistake is an error before anything runs.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headwater.client.constants import READ_COMMITTED, READ_UNCOMMITTED
from headwater.client.errors import BadOption
from headwater.client.options import Options
from headwater.spark.source.values import options as value_options
from headwater.spark.source.values.options import Registry

logger = logging.getLogger("headwater.spark")

COLUMNS = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}
FORMATS = ("json", "avro", "confluent-avro")
CHOICES = ("assign", "subscribe", "subscribePattern")
OF_KAFKAS_SOURCE = (
    *CHOICES,
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "endingOffsetsByTimestamp",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "maxRecordsPerPartition",
    "includeHeaders",
)
WITHOUT_EFFECT = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
)
OUR_OWN = (
    "isolation.level",
    "maxBytesPerTrigger",
    "shareBy",
    "waitForRecords",
    "columns",
    "files",
    "pushFilters",
    "schema",
    "schemaFormat",
    "registry",
    "registryPin",
    "registryWatch",
    "mode",
    "deadLetterTopic",
)
# As Spark's Kafka source: these would change what is read behind the query's back.
REFUSED_SETTINGS = {
    "auto.offset.reset": "Say startingOffsets instead.",
    "key.deserializer": "Keys are bytes; cast them in the query.",
    "value.deserializer": "Values are bytes; cast them in the query, or give a schema.",
    "enable.auto.commit": "A query's position is in its checkpoint.",
    "interceptor.classes": "Interceptors are Java's.",
}
RECORDS_PER_TASK = 1_000_000
"""Beyond this a partition's range is divided: enough that a task's own cost is not felt."""


@dataclass(frozen=True)
class SourceOptions:
    """One query's wishes."""

    choice: str
    """assign, subscribe or subscribePattern."""
    chosen: str
    given: Options
    client: Mapping[str, str]
    isolation: int
    columns: tuple[str, ...]
    fail_on_data_loss: bool
    max_offsets: int | None
    max_bytes: int | None
    """As the records are on average, on disk."""
    min_offsets: int | None
    max_trigger_delay_s: float
    wait: bool
    """Whether a look that finds nothing, after another one, waits for records."""
    min_partitions: int | None
    records_per_task: int
    strategy: str
    """What to do where no record is as late as a starting timestamp: error or latest."""
    files: bool
    push_filters: bool
    schema: str | None
    schema_format: str
    registry: Registry | None
    mode: str
    dead_letter_topic: str | None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        given = Options(options)
        given.refuse_unknown((*OF_KAFKAS_SOURCE, *WITHOUT_EFFECT, *OUR_OWN), "source")
        client = given.client_settings()
        for name, hint in REFUSED_SETTINGS.items():
            if name in client:
                raise BadOption(f"kafka.{name} cannot be set here.", hint=hint)
        for name in WITHOUT_EFFECT:
            if name in given:
                logger.warning("option %s has no effect: this source joins no group", name)
        choice = given.only_one_of(CHOICES)
        if choice is None:
            raise BadOption(
                "It is not said which topics to read.",
                hint='Give one of subscribe ("orders,payments"), subscribePattern ("orders.*") '
                'and assign ({"orders": [0, 1]}).',
            )
        schema, registry = value_options.read(given)
        return cls(
            choice=choice,
            chosen=_chosen(choice, given.text(choice) or ""),
            given=given,
            client=client,
            isolation=_isolation(given, client),
            columns=_columns(given),
            fail_on_data_loss=given.flag("failOnDataLoss", True),
            max_offsets=given.number("maxOffsetsPerTrigger"),
            max_bytes=given.number("maxBytesPerTrigger"),
            min_offsets=given.number("minOffsetsPerTrigger"),
            max_trigger_delay_s=_duration(given.text("maxTriggerDelay") or "15m"),
            wait=given.flag("waitForRecords", False),
            min_partitions=given.number("minPartitions"),
            records_per_task=given.number("maxRecordsPerPartition") or RECORDS_PER_TASK,
            strategy=given.choice(
                "startingOffsetsByTimestampStrategy", ("error", "latest"), "error"
            ),
            files=given.flag("files", True),
            push_filters=given.flag("pushFilters", False),
            schema=schema,
            schema_format=given.choice("schemaFormat", FORMATS, value_options.guess(schema)),
            registry=registry,
            mode=given.choice("mode", ("DEADLETTER", "FAILFAST"), "DEADLETTER"),
            dead_letter_topic=given.text("deadLetterTopic"),
        )

    def topics(self) -> list[str] | None:
        """The names that are known from the options alone; None for a pattern."""
        if self.choice == "subscribe":
            return self.chosen.split(",")
        if self.choice == "assign":
            return list(json.loads(self.chosen))
        return None

    def assigned(self) -> dict[str, list[int]] | None:
        return json.loads(self.chosen) if self.choice == "assign" else None

    def ddl(self) -> str:
        """The columns, as Spark's SQL spells a schema."""
        kinds = dict(COLUMNS)
        if self.schema is not None:
            from headwater.spark.source.values.schema import value_ddl

            kinds["value"] = value_ddl(self.schema, self.schema_format)
        return ", ".join(f"`{name}` {kinds[name]}" for name in self.columns)


def _chosen(choice: str, text: str) -> str:
    if choice == "subscribe":
        names = [name.strip() for name in text.split(",") if name.strip()]
        if not names:
            raise BadOption("subscribe names no topic.", hint='Write "a" or "a,b".')
        return ",".join(dict.fromkeys(names))
    if choice == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise BadOption(
                f"subscribePattern {text!r} is no regular expression: {error}."
            ) from None
        return text
    return json.dumps(_assignment(text))


def _assignment(text: str) -> dict[str, list[int]]:
    try:
        found: Any = json.loads(text)
        good = isinstance(found, dict) and all(
            isinstance(each, list) and each and all(type(n) is int and n >= 0 for n in each)
            for each in found.values()
        )
    except ValueError:
        good = False
    if not good or not found:
        raise BadOption(f"assign is {text!r}.", hint='It must be JSON as {"orders": [0, 1]}.')
    return {topic: sorted(set(each)) for topic, each in found.items()}


def _isolation(given: Options, client: Mapping[str, str]) -> int:
    """`kafka.isolation.level` as for a consumer, or `isolation.level`: the same, shorter."""
    values = [given.text("isolation.level"), client.get("isolation.level")]
    said = {each.lower() for each in values if each is not None}
    if len(said) > 1:
        raise BadOption("isolation.level and kafka.isolation.level contradict each other.")
    level = said.pop() if said else "read_uncommitted"
    if level not in ("read_uncommitted", "read_committed"):
        raise BadOption(
            f"isolation.level is {level!r}.", hint="It must be read_uncommitted or read_committed."
        )
    return READ_COMMITTED if level == "read_committed" else READ_UNCOMMITTED


def _columns(given: Options) -> tuple[str, ...]:
    text = given.text("columns")
    with_headers = given.flag("includeHeaders", False)
    if text is None:
        return tuple(name for name in COLUMNS if with_headers or name != "headers")
    known = {name.lower(): name for name in COLUMNS}
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in known]
    if unknown or not names or len(set(names)) < len(names):
        raise BadOption(
            f"columns is {text!r}.", hint="Name some of " + ", ".join(COLUMNS) + ", each once."
        )
    if with_headers and "headers" not in names:
        raise BadOption("includeHeaders and columns contradict each other.")
    return tuple(known[name] for name in names)


_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "": 0.001}


def _duration(text: str) -> float:
    """As Spark writes it: 15m, 30s, 500ms."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _UNITS:
        raise BadOption(f"maxTriggerDelay is {text!r}.", hint="Write it as 15m, 30s or 500ms.")
    return int(match[1]) * _UNITS[match[2]]
