"""Databases as streams of changes: every insert, update and delete, in commit order, in the log.

    source (postgres/ mysql/ sqlite/ mongodb/) ──Batch──▶ runner ──▶ writer ──▶ topics
         ▲                                                              │
         └────────────── acknowledge(position) ◀── durable ─────────────┘

A source reads its database and encodes rows with `envelope`; the writer puts a batch and the position
behind it into the log in one Kafka transaction; only then is the source told that it may forget.
"""
