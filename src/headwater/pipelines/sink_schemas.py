"""Views that go to a topic by a schema: the view's columns are registered as TOPIC-value when it is built.

    options={"format": "avro"}          or "protobuf", "json-schema"; "json", the default, registers nothing

The sink encodes by the schema's id, in the tasks (`schemas.values.arrow`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from headwater.client.errors import BrokerUnreachable
from headwater.pipelines.context import Context
from headwater.pipelines.declarations import REAL_TIME, View
from headwater.pipelines.errors import NotRealTime, PipelineError
from headwater.pipelines.registry import OPTION, address
from headwater.schemas.client import RegistryClient, shared
from headwater.schemas.errors import RegistryError
from headwater.schemas.model import AVRO, JSON, PROTOBUF, Schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

FORMAT = "format"
KINDS = {"avro": AVRO, "protobuf": PROTOBUF, "json-schema": JSON}


def sink_options(view: View, context: Context, topic: str, row: StructType) -> dict[str, str]:
    """Of the sink, for a view with a format; its schema is in the registry then. Raises PipelineError."""
    form = view.options.get(FORMAT, "json")
    if form == "json":
        return {}
    named = f"the view {view.name!r} ({view.place})"
    if context.speed == REAL_TIME:
        raise NotRealTime(
            f"{named} asks for format {form!r}, which Spark's Kafka connector cannot write",
            hint="leave out the format, or speed=",
        )
    url = address(context, {})
    if form not in KINDS or url is None:
        raise PipelineError(
            f"{named} asks for format {form!r}" + ("" if form in KINDS else ", which is not known"),
            hint="it is json, or avro, protobuf or json-schema, which need a registry: [schemas], or "
            "HEADWATER_REGISTRY=URL",
        )
    subject = f"{topic}-value"
    try:
        text = _text(form, shared(url), subject, row)
        identity = shared(url).register(subject, Schema(text, KINDS[form]))
    except (RegistryError, BrokerUnreachable, ValueError) as error:
        raise PipelineError(
            f"{named} cannot register its columns as {subject}: {error}",
            hint="change the view, or the level: headwater schemas compat",
        ) from None
    return {OPTION: url, "registryId": str(identity)}


def complaint(view: View, context: Context, topic: str, row: StructType) -> str:
    """What the registry has against these columns of a view that runs; nothing is registered. RegistryError,
    BrokerUnreachable."""
    form, url = view.options.get(FORMAT, "json"), address(context, {})
    if form == "json" or url is None:
        return ""
    subject = f"{topic}-value"
    try:
        text = _text(form, shared(url), subject, row)
    except ValueError as error:
        return str(error)
    return "; ".join(shared(url).complaints(subject, Schema(text, KINDS[form])))


def _text(form: str, registry: RegistryClient, subject: str, row: StructType) -> str:
    from headwater.pipelines.real_time_tables import MARKS
    from headwater.spark.row_schemas.avro import avro_schema, legal

    name = legal(subject.removesuffix("-value"))
    if form == "protobuf":
        from headwater.spark.row_schemas.protobuf import protobuf_schema

        return protobuf_schema(row, name, _before(registry, subject), MARKS)
    if form == "json-schema":
        from headwater.spark.row_schemas.json_schema import json_schema

        return json.dumps(json_schema(row, name, MARKS))
    return json.dumps(avro_schema(row, name, MARKS))


def _before(registry: RegistryClient, subject: str) -> list[str]:
    """The texts of all versions, deleted ones too: their numbers are taken."""
    try:
        numbers = registry.versions(subject, deleted=True)
        found = [registry.version(subject, each, deleted=True).schema for each in numbers]
    except RegistryError as error:
        if error.status == 404:
            return []
        raise
    return [each.text for each in found if each.kind == PROTOBUF]
