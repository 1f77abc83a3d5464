"""The questions of a topic as a stream; those that nobody could answer go to the dead letters.

A question must say where its answer is to go, to a topic that is there, and how it is known; its value must
fit the schema. Whatever is wrong is found by the task that reads it, before anything is answered.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.pipelines.context import current
from headwater.pipelines.sources import OF_THE_RECORD, events
from headwater.pipelines.tables import row_type
from headwater.processing import dead_letters
from headwater.processing.dead_letters import COLUMNS, Place, place_of
from headwater.processing.request_reply.headers import CORRELATION_ID, REPLY_TOPIC

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

TO, ID = "_reply_topic", "_correlation_id"
MARKS = (TO, ID)
"""Columns of a question that its answer needs."""


def requests(
    topic: str,
    *,
    schema: str,
    starting: str = "earliest",
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The questions of a topic: columns of `schema`, those of the record (`_key`, …), and where to answer.

    Keep `_reply_topic` and `_correlation_id` in what the view returns: `to="replies:"` needs them.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import BinaryType, StringType, StructField, StructType

    context = current()
    context.streams.append(topic)
    chosen = {"includeHeaders": "true", **(options or {})}
    records = events(context, topic, schema=None, starting=starting, options=chosen)
    row = row_type(schema, repr(topic))
    made = StructType(
        [
            StructField("value", row),
            StructField(TO, StringType()),
            StructField(ID, BinaryType()),
            *(records.schema[name[1:]] for name in OF_THE_RECORD),
        ]
    )
    reading = _Reading(row.json(), place_of(context))
    questions = records.select(*COLUMNS).mapInArrow(reading, made)
    marks = (F.col(name[1:]).alias(name) for name in OF_THE_RECORD)
    return questions.select("value.*", *MARKS, *marks)


@dataclass(frozen=True)
class _Reading:
    """For mapInArrow: records to questions."""

    row: str
    """The type of a value, as Spark's JSON."""
    place: Place

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from headwater.spark.source.values.json import JsonValues

        kind = _arrow(self.row)
        for batch in batches:
            rows = batch.to_pylist()
            said = [_headers(row) for row in rows]
            reasons = _unanswerable(said, self._topics(said))
            for number, reason in _misfits(JsonValues(kind), batch.column("value")):
                reasons.setdefault(number, f"its value does not fit the schema: {reason}")
            dead_letters.put(
                self.place, [(rows[n], reason) for n, reason in sorted(reasons.items())]
            )
            keep = [number for number in range(len(rows)) if number not in reasons]
            good = batch.take(pa.array(keep, pa.int64()))
            structs, _ = JsonValues(kind).convert(good.column("value"))
            named = {
                "value": structs,
                TO: pa.array([said[n][0] for n in keep], pa.string()),
                ID: pa.array([said[n][1] for n in keep], pa.binary()),
                **{name[1:]: good.column(name[1:]) for name in OF_THE_RECORD},
            }
            yield pa.RecordBatch.from_arrays(list(named.values()), names=list(named))

    def _topics(self, said: Sequence[tuple[str | None, bytes | None]]) -> set[str]:
        """Those of the topics for answers that are there."""
        from headwater.client import cluster as connect
        from headwater.client.options import Options

        asked = sorted({topic for topic, _ in said if topic})
        if not asked:
            return set()
        cluster = connect.cluster(Options(self.place.options).client_settings())
        return set(cluster.metadata(asked).topics)


def _headers(row: Mapping[str, Any]) -> tuple[str | None, bytes | None]:
    found = {each["key"]: each["value"] for each in row["headers"] or ()}
    topic = found.get(REPLY_TOPIC)
    return None if topic is None else topic.decode("utf-8", "replace"), found.get(CORRELATION_ID)


def _unanswerable(
    said: Sequence[tuple[str | None, bytes | None]], there: set[str]
) -> dict[int, str]:
    reasons = {}
    for number, (topic, correlation) in enumerate(said):
        if not topic or correlation is None:
            missing = CORRELATION_ID if topic else REPLY_TOPIC
            reasons[number] = f"a question must have the header {missing}"
        elif topic not in there:
            reasons[number] = f"the topic for its answer, {topic}, is not there"
    return reasons


def _misfits(values: Any, column: pa.Array) -> Iterator[tuple[int, str]]:
    _, bad = values.convert(column)
    return ((each.row, each.reason) for each in bad)


def _arrow(row: str) -> Any:
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import StructType

    return to_arrow_type(StructType.fromJson(json.loads(row)), timezone="UTC")
