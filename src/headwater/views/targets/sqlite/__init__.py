"""Views in a SQLite file: rows and position change in one transaction."""
