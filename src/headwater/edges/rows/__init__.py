"""A view's rows in the store where they live, as JSON: by key, page by page, by words, all of them.

    catalogue   which views there are            contract    what can be asked of a view's rows
    sql         SQLite, PostgreSQL, DuckDB       documents   tantivy, OpenSearch
    arrow       Redis, Delta Lake                positions   how far views are, and waiting for it
    values      values and keys as texts

Every answer has the view's position of the same moment. Called by `reads` and by the changefeeds of views. No
Spark: columns are asked of the store itself.
"""

from __future__ import annotations

from headwater.edges.rows.contract import Row, Rows, rows_of

__all__ = ["Row", "Rows", "rows_of"]
