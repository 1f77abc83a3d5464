"""A view's rows in the store where they live, as JSON: by key, page by page, by words, all of them.

    contract    what can be asked of a view's rows      values   values and keys as texts
    sql         SQLite, PostgreSQL, DuckDB              arrow    Redis, Delta Lake
    documents   tantivy, OpenSearch

Every answer has the view's position of the same moment. Called by the edges (reads, changefeeds) and the
console. No Spark: columns are asked of the store itself.
"""

from __future__ import annotations

from headwater.pipelines.view_rows.contract import Row, Rows, rows_of

__all__ = ["Row", "Rows", "rows_of"]
