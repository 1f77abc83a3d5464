"""MariaDB and MySQL as streams of changes: the binary log read as a replica reads it, decoded here.

    replication ──▶ assembly ──▶ encoding ──▶ batches
                    (transactions) (tables, rows, values)
    connection ──▶ snapshot ──────────────▶ batches

`source` puts the parts together; `connection` and `replication` talk to the server; `events`,
`table_map`, `rows` and what they use are pure: bytes in, values out.
"""

from __future__ import annotations

from headwater.capture.config import CaptureConfig
from headwater.capture.source import Source


def open_source(config: CaptureConfig) -> Source:
    """The source for a mariadb:// or mysql:// address; the driver is loaded here."""
    try:
        import pymysql  # noqa: F401
    except ImportError:
        from headwater.capture.errors import Misconfigured

        raise Misconfigured(
            "capturing from MariaDB or MySQL needs PyMySQL", hint="pip install 'headwater[mysql]'"
        ) from None
    from headwater.capture.mysql.source import MariaDBSource

    return MariaDBSource(config)
