"""Joins of streams with streams and with tables: plain functions from DataFrames to DataFrames.

    within  two streams, events that belong together within a time range; the unmatched too
    enrich  a stream with a table, as the log had it at the moment of each event
    as_of   a stream with a table, the row that was valid at each event's own time

`changes` reads a table for the last two. Tables with tables: `hw.table` (docs/views-over-tables.md).
"""

from headwater.processing.joins.errors import BadJoin
from headwater.processing.joins.streams import within
from headwater.processing.joins.table_changes import changes
from headwater.processing.joins.tables import as_of, enrich

__all__ = ["BadJoin", "as_of", "changes", "enrich", "within"]
