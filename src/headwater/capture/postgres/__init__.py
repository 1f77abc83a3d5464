"""PostgreSQL 14 to 18: logical replication with pgoutput, nothing to install on the server.

slot ──(exported snapshot)──▶ snapshot ─┐
  └──▶ replication ──▶ pgoutput ──▶ transactions ──▶ stream ──▶ batches
"""

from __future__ import annotations

from headwater.capture.config import CaptureConfig
from headwater.capture.source import Source


def open_source(config: CaptureConfig) -> Source:
    """The source for a postgresql:// address; psycopg is loaded here."""
    try:
        import psycopg  # noqa: F401
    except ImportError:
        from headwater.capture.errors import Misconfigured

        raise Misconfigured(
            "capturing from PostgreSQL needs psycopg", hint="pip install 'headwater[postgres]'"
        ) from None
    from headwater.capture.postgres.source import PostgresSource

    return PostgresSource(config)
