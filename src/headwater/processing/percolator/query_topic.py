"""Queries that are stored in a topic: read, tried, and the bad ones put aside.

    key     the query's id
    value   {"query": "+disk -test"}: added, or in place of the one before; no value: removed

A query that cannot be parsed changes nothing: it goes to the view's dead letters with the reason, and the one
before it stays in force.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.pipelines.context import current
from headwater.pipelines.sources import events
from headwater.processing.dead_letters import COLUMNS, Place, Sorting, place_of
from headwater.processing.percolator.fields import BadQuery, Fields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["BadQuery", "Queries", "queries"]


@dataclass(frozen=True)
class Queries:
    """The records of a topic of queries, not looked at yet: what they may ask for, documents say."""

    records: DataFrame
    place: Place

    def usable(self, fields: Fields) -> DataFrame:
        """`_key`, `_text` (null: removed), `_recorded`, `_partition` and `_offset` of each query."""
        from pyspark.sql import functions as F  # noqa: N812

        good = self.records.mapInArrow(Sorting(_Judge(fields), self.place), self.records.schema)
        return good.select(
            F.col("key").cast("string").alias("_key"),
            F.get_json_object(F.col("value").cast("string"), "$.query").alias("_text"),
            F.unix_micros("timestamp").alias("_recorded"),
            F.col("partition").cast("long").alias("_partition"),
            F.col("offset").alias("_offset"),
        )


def queries(
    topic: str, *, starting: str = "earliest", options: Mapping[str, str] | None = None
) -> Queries:
    """The queries that are stored in a topic; it is read to its end in every batch."""
    context = current()
    context.streams.append(topic)
    chosen = {"maxOffsetsPerTrigger": str(2**62), "includeHeaders": "true", **(options or {})}
    records = events(context, topic, schema=None, starting=starting, options=chosen)
    return Queries(records.select(*COLUMNS), place_of(context))


@dataclass(frozen=True)
class _Judge:
    fields: Fields

    def __call__(self, record: Mapping[str, Any]) -> str | None:
        if record["key"] is None:
            return "a stored query must have a key, by which it is replaced and removed"
        if record["value"] is None:
            return None
        try:
            said = json.loads(record["value"])
        except ValueError as error:
            return f"a stored query must be a JSON object: {error}"
        text = said.get("query") if isinstance(said, dict) else None
        if not isinstance(text, str):
            return (
                'a stored query must be a JSON object with its text, as in {"query": "+disk -test"}'
            )
        try:
            self.fields.admit(text)
        except BadQuery as error:
            return str(error)
        return None
