"""Views in PostgreSQL: rows and position change in one transaction."""
