"""Columns and types of a topic by its schemas in a registry: what `stream` and `table` take where nobody
gave a schema.

Asked when a query first starts, which pins it to the schema that is the latest then: its state has these
columns (`pinned_schemas`), and a restart does not change them; `evolution` and a rebuild do. The source
decodes every value by its own schema, and stops at one that the pinned schema cannot read. The subjects are
those of Confluent's serializers and of `capture`: TOPIC-value and TOPIC-key.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from headwater.client.errors import BadOption, BrokerUnreachable
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import REAL_TIME
from headwater.pipelines.errors import NotRealTime, PipelineError, SchemaAwaited
from headwater.pipelines.pinned_schemas import KeptPins, Pins
from headwater.spark.source.values.options import guess
from headwater.spark.source.values.schema import sql_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from headwater.schemas.values.codecs import Found

OPTION, PIN = "registry", "registryPin"
WATCH = "registryWatch"
LOOK_S = 0.5
Made = TypeVar("Made")


@dataclass(frozen=True)
class Described:
    """A topic as its schemas describe it."""

    schema: str
    """Of the rows, as Spark's SQL spells it."""
    key: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    """For the source."""
    id: int | None = None
    """Of the schema of its values."""


UNKNOWN = Described("")
"""Of a topic that the registry does not know."""


def address(context: Context, options: Mapping[str, str]) -> str | None:
    """The registry that is asked; an option that is empty means none."""
    given = {name.lower(): value for name, value in options.items()}
    return given.get(OPTION, context.registry) or None


def of_stream(context: Context, topic: str, options: Mapping[str, str]) -> Described | None:
    """None where there is no registry, or it does not know the topic."""
    url = address(context, options)
    if url is None or "," in topic or context.speed == REAL_TIME:
        return None
    found = _once(context, f"stream {topic}", lambda pins: _of_stream(pins, url, topic))
    return None if found is UNKNOWN else found


def of_table(context: Context, topic: str, options: Mapping[str, str]) -> Described:
    """Of the rows that the records tell of. Raises PipelineError."""
    url = address(context, options)
    if url is None:
        raise PipelineError(
            f"table {topic!r} has no schema, and no registry is named that could have one",
            hint="give schema= and key=; or [schemas] in headwater.toml, or HEADWATER_REGISTRY=URL",
        )
    if context.speed == REAL_TIME:
        raise NotRealTime(
            f"table {topic!r} has no schema, and at real-time speed no registry is asked",
            hint="give schema= and key=, or leave out speed=",
        )
    return _once(context, f"table {topic}", lambda pins: _of_table(pins, url, topic))


def decoded(context: Context, schema: str, options: Mapping[str, str]) -> dict[str, str]:
    """The source's options where a schema is given: values that name theirs are decoded by it. Not where the
    schema or an option says what values are."""
    url = address(context, options)
    said = guess(schema) != "json" or any(name.lower() == "schemaformat" for name in options)
    return {} if url is None or said or context.speed == REAL_TIME else {OPTION: url}


def pins(context: Context) -> dict[str, str]:
    """The schemas that the query's columns were made from, as an option of the source."""
    known = {name: each for name, each in context.described.items() if each.id is not None}
    if not known:
        return {}
    named = {name.partition(" ")[2]: each.id for name, each in known.items()}
    return {PIN: json.dumps(named), **_watched(context, known)}


def _watched(context: Context, known: Mapping[str, Described]) -> dict[str, str]:
    """Somebody keeps the query running, and can bring it to other schemas."""
    if context.view is None or context.checkpoint is None or context.pinned is not None:
        return {}
    kept = KeptPins(context.checkpoint)
    if not kept.are_kept:
        return {}
    looked_at = {name.partition(" ")[2]: kept.of(name).looked_at for name in known}
    return {WATCH: json.dumps(looked_at)}


def evolves(context: Context) -> bool:
    """Whether the query is being brought to other schemas than it was started with."""
    return context.pinned is None and KeptPins(context.checkpoint).evolving is not None


def awaited(
    build: Callable[[], Made],
    name: str,
    say: Callable[[str], None],
    stopped: threading.Event | None,
) -> Made | None:
    """What `build` makes; with `stopped` once its topics have schemas, or None where that event ended it."""
    told = False
    while True:
        try:
            return build()
        except (SchemaAwaited, BrokerUnreachable) as error:
            if stopped is None:
                raise
            if not told:
                say(f"{name}: waits, for {error.sentence}")
            told = True
            if stopped.wait(LOOK_S):
                return None


def _once(context: Context, name: str, ask: Callable[[Pins], Described]) -> Described:
    if name not in context.described:
        if context.tried is not None:
            context.described[name] = ask(context.tried.get(name) or Pins())
        else:
            kept = KeptPins(context.schemas_at or context.checkpoint)
            pins = kept.of(name)
            context.described[name] = ask(pins)
            kept.keep(name, pins)
    return context.described[name]


def _of_stream(pins: Pins, url: str, topic: str) -> Described:
    found = pins.found(url, topic, "value")
    if found is None:
        return UNKNOWN
    row = _with_earlier(_type(found, topic), [_type(e, topic) for e in pins.earlier(url)])
    return Described(sql_columns(row), (), {OPTION: url}, found.id)


def _of_table(pins: Pins, url: str, topic: str) -> Described:
    found = pins.found(url, topic, "value")
    if found is None:
        raise SchemaAwaited(
            f"table {topic!r} has no schema, and the registry has no subject {topic}-value",
            hint='give schema= and key=; or begin to capture it with format = "avro"',
        )
    earlier = [_row(_type(each, topic)) for each in pins.earlier(url)]
    row = _with_earlier(_row(_type(found, topic)), earlier)
    key = pins.found(url, topic, "key")
    names = () if key is None else tuple(_type(key, topic).names)
    known = names if all(name in row.names for name in names) else ()
    return Described(sql_columns(row), known, {OPTION: url}, found.id)


def _type(found: Found, topic: str) -> StructType:
    from pyspark.sql.types import StructType

    from headwater.spark.source.values.registry_types import ddl

    try:
        made = StructType.fromDDL(f"value {ddl(found)}")
    except BadOption as error:
        raise PipelineError(f"{topic}: {error.sentence}", hint=error.hint) from None
    assert isinstance(made, StructType)
    value = made["value"].dataType
    assert isinstance(value, StructType)
    return value


def _with_earlier(row: StructType, earlier: Sequence[StructType]) -> StructType:
    """A column keeps its place, and one that is gone stays, without values."""
    from pyspark.sql.types import StructType

    fields = {each.name: each for known in earlier for each in known.fields}
    return StructType(list((fields | {each.name: each for each in row.fields}).values()))


def _row(value: StructType) -> StructType:
    """Of an envelope, what a row is after a change."""
    from pyspark.sql.types import StructType

    from headwater.spark.source.values.registry_types import ENVELOPE

    if all(name in value.names for name in ENVELOPE):
        after = value["after"].dataType
        if isinstance(after, StructType):
            return after
    return value
