"""Views in a DuckDB file: rows and position change in one transaction."""
