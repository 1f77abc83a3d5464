"""The partitioned log on disk: what it keeps, what it drops, and what a crash may do to it."""
