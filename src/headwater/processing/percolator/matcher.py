"""`match`: a stream of documents against stored queries, as a DataFrame.

    documents ─▶ spread over the groups ─┐
                                         ├─▶ one group: its documents, all queries ─▶ matches
    queries ─▶ tried ─▶ to every group ──┘

Every group has all queries as its state, and keeps them parsed in its worker's memory between two batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headwater.processing.durations import Duration, micros
from headwater.processing.joins.versions import EVER, Change
from headwater.processing.percolator.documents import document
from headwater.processing.percolator.fields import BadQuery, Fields, fields_of
from headwater.processing.percolator.query_topic import Queries, queries
from headwater.processing.percolator.stored_queries import Standing, digest, recalled, remember
from headwater.processing.row_text import packed, unpacked

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState
    from pyspark.sql.types import StructType

QUERY = "query"
GROUPS = 2
_OUT = f"_kept STRING, {QUERY} STRING"
_STATE = "mark BINARY, kept BINARY, newest BIGINT"


def match(
    documents: DataFrame,
    stored: str | Queries,
    *,
    keep: str | Sequence[str],
    fields: Sequence[str] | None = None,
    at: str = "_timestamp",
    lateness: Duration = "1 hour",
    tokenizer: str = "default",
    groups: int = GROUPS,
) -> DataFrame:
    """One row for each document and each stored query that finds it: `query`, then the columns `keep`.

    `query_topic`: the topic of the queries, or `queries(topic, …)`. `fields`: the columns to search in, by
    themselves all that can be searched, without marks such as `_offset`.

    A document meets the queries that were in force at its time `at`, by the times of the queries' records:
    in any batches, and in a replay, these are the same. It must have been read before, as everything in the
    topic of queries is that was there when the batch began. What a query was is remembered for `lateness`
    behind the newest document. `groups`: how many tasks share the documents; each holds all queries.
    """
    kept = [keep] if isinstance(keep, str) else list(keep)
    row = documents.schema
    _check(row, kept, at)
    known = fields_of(row, fields, tokenizer)
    asked = (queries(stored) if isinstance(stored, str) else stored).usable(known)
    both = _passing(documents, known, kept, at, groups).unionByName(_asked(asked, groups))
    work = _Matching(known, micros(lateness))
    if both.isStreaming:
        found = both.groupBy("_group").applyInPandasWithState(
            work, _OUT, _STATE, "append", "NoTimeout"
        )
    else:
        # Not the method itself: Spark counts its parameters, and takes self for one.
        found = both.groupBy("_group").applyInPandas(lambda rows: work.at_once(rows), _OUT)
    typed = found.select(QUERY, unpacked("_kept", _struct(row, kept)).alias("_kept"))
    return typed.select(QUERY, "_kept.*")


def _passing(
    documents: DataFrame, fields: Fields, kept: Sequence[str], at: str, groups: int
) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    text = document(documents.schema, fields)
    return documents.select(
        F.pmod(F.xxhash64(text), F.lit(groups)).cast("int").alias("_group"),
        F.lit(False).alias("_query"),
        packed(_struct(documents.schema, kept)).alias("_key"),
        text.alias("_text"),
        F.coalesce(F.unix_micros(F.col(f"`{at}`").cast("timestamp")), F.lit(EVER)).alias(
            "_recorded"
        ),
        *(F.lit(0).cast("long").alias(name) for name in ("_partition", "_offset")),
    )


def _asked(asked: DataFrame, groups: int) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    everywhere = F.explode(F.array(*(F.lit(number) for number in range(groups))))
    return asked.select(everywhere.alias("_group"), F.lit(True).alias("_query"), "*")


@dataclass(frozen=True)
class _Matching:
    """What the workers do with a group."""

    fields: Fields
    lateness: int

    def __call__(
        self, _: Any, frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        standing, newest, known = Standing(self.fields), EVER, state.getOption
        if known is not None:
            standing = recalled(self.fields, bytes(known[0]), bytes(known[1]))
            newest = int(known[2])
        before = standing
        rows = list(frames)
        standing = standing.after(_changes(rows)) if _asks(rows) else standing
        yield self._matched(standing, rows)
        newest = max([newest, *(t for frame in rows for t in _documents(frame)["_recorded"])])
        standing = standing.without(newest - self.lateness)
        if standing is not before or known is None:
            kept = standing.to_bytes()
            mark = digest(kept)
            remember(mark, standing)
            state.update((mark, kept, newest))
        elif newest > int(known[2]):
            state.update((known[0], known[1], newest))

    def at_once(self, frame: pd.DataFrame) -> pd.DataFrame:
        """A group in a query that is no stream."""
        return self._matched(Standing(self.fields).after(_changes([frame])), [frame])

    def _matched(self, standing: Standing, rows: list[pd.DataFrame]) -> pd.DataFrame:
        import pandas as pd

        parts = [_documents(frame) for frame in rows]
        kept = [each for part in parts for each in part["_key"].tolist()]
        texts = [each for part in parts for each in part["_text"].tolist()]
        times = [each for part in parts for each in part["_recorded"].tolist()]
        found = [(kept[number], query) for number, query in standing.matches(texts, times)]
        return pd.DataFrame(found, columns=["_kept", QUERY], dtype=object)


def _asks(rows: list[pd.DataFrame]) -> bool:
    return any(frame["_query"].any() for frame in rows)


def _documents(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[~frame["_query"].to_numpy(dtype=bool)]


def _changes(rows: list[pd.DataFrame]) -> Iterator[Change]:
    for frame in rows:
        some = frame[frame["_query"].to_numpy(dtype=bool)]
        names = ("_key", "_recorded", "_recorded", "_partition", "_offset")
        texts = [each if isinstance(each, str) else None for each in some["_text"].tolist()]
        columns = [some[name].tolist() for name in names]
        for each in zip(*columns, texts, strict=True):
            yield Change(*each)


def _check(row: StructType, kept: Sequence[str], at: str) -> None:
    missing = [name for name in (*kept, at) if name not in row.names]
    if missing:
        raise BadQuery(
            f"the documents have no column {missing[0]}",
            hint=f"their columns are {', '.join(row.names)}",
        )
    if QUERY in kept:
        raise BadQuery(
            f"the column {QUERY} of the result says which query found a document",
            hint=f"rename the documents' own column {QUERY}",
        )


def _struct(row: StructType, names: Sequence[str]) -> StructType:
    from pyspark.sql.types import StructType

    return StructType([row[name] for name in names])
