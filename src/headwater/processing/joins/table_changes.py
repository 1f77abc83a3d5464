"""A table as its changes, for the joins that look at its past.

`hw.table` is a table as it is now. Here every change counts, with its time; a view that is compared with the
log (`headwater verify`) therefore reads all changes too, and not only the last of each key. A value that is
no change, and a truncate, which does not say which rows it ends, are dead letters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headwater.pipelines.context import current
from headwater.pipelines.sources import events
from headwater.pipelines.tables import MARKS, one_by_one, table_of
from headwater.processing.joins.errors import BadJoin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Changes:
    """The changes of a table: its columns, `_deleted`, and `_op`, `_partition`, `_offset`, `_timestamp`."""

    frame: DataFrame
    key: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        """Of the table itself."""
        return [name for name in self.frame.columns if name not in MARKS]


def changes(
    topic: str,
    *,
    schema: str,
    key: str | Sequence[str],
    starting: str = "earliest",
    options: Mapping[str, str] | None = None,
) -> Changes:
    """The table that a topic tells of, change by change: Debezium's envelopes or plain rows.

    The topic is read to its end in every batch, so that a table is never behind the events that are
    joined with it. It must not be compacted where the past matters.
    """
    context = current()
    context.streams.append(topic)
    keys = (key,) if isinstance(key, str) else tuple(key)
    if not keys:
        raise BadJoin(f"the key of table {topic!r} names nothing")
    table = table_of(topic, schema, keys)
    # Whole: a limit on the records of a batch would let the events run ahead of the table.
    whole = {"maxOffsetsPerTrigger": str(2**62), **(options or {})}
    records = events(context, topic, schema=None, starting=starting, options=whole)
    return Changes(one_by_one(context, records, table), keys)
