"""Time, windows and analytics; and what else needs the same Spark session: the fixture, pages, an example."""
