"""What the targets SQLite, PostgreSQL and DuckDB have in common."""
