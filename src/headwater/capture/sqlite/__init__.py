"""SQLite: triggers write every change into one table of the same file; capture drains it into the log.

    application ──▶ table ──trigger──▶ _headwater_changes ──drain──▶ topic ──acknowledged──▶ pruned
                    └──────── one commit, whoever writes ┘

Opened by `headwater.capture.source`. The order of reading: `connection`, `shape` (what a table is),
`triggers` (its SQL), `reconcile` (triggers follow the tables), `changes` (rows of the change table to
events), `encode` and `tables` (events to records), `commits` (transactions told apart), `place` (the
position), `drain` (looks, batches, snapshot), `source` (the contract).
"""

from __future__ import annotations

from headwater.capture.config import CaptureConfig
from headwater.capture.sqlite.source import SqliteSource


def open_source(config: CaptureConfig) -> SqliteSource:
    """The source for `from = "sqlite:shop.db"`."""
    return SqliteSource(config)
