"""Capture beside Debezium: the same server, the same rows, the same broker, in one run."""
