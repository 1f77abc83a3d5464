"""Which tables are captured, and as which server, by the settings; for `source`, `tables`, `preflight`."""

from __future__ import annotations

import zlib
from collections.abc import Collection

from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Misconfigured
from headwater.capture.mysql import schema
from headwater.capture.mysql.connection import Connection
from headwater.capture.mysql.schema import Table


def check_selection(config: CaptureConfig) -> None:
    if both := sorted(without(config) & set(config.tables)):
        raise Misconfigured(
            f"capture {config.name}: {both[0]} is in `tables` and in `without_tables`",
            hint="take it out of one of them",
        )
    if any("." in name for name in config.tables):
        raise Misconfigured(
            f"capture {config.name}: tables are named without their database",
            hint="the database is the one of the address; another needs a capture of its own",
        )


def wanted_tables(config: CaptureConfig) -> tuple[str, ...]:
    """The tables that are named, the outbox among them; none: all."""
    if config.tables and config.outbox is not None and config.outbox not in config.tables:
        return (*config.tables, config.outbox)
    return config.tables


def without(config: CaptureConfig) -> set[str]:
    """Tables that are set aside, such as one that cannot be read."""
    return set(config.option("without_tables", []))


def captured_now(connection: Connection, config: CaptureConfig, database: str) -> dict[str, Table]:
    """As the server describes them."""
    found = schema.read(connection, database, wanted_tables(config), missing_ok=True)
    return {name: table for name, table in found.items() if name not in without(config)}


def check_presence(config: CaptureConfig, there: Collection[str]) -> None:
    """Before the first snapshot: a name that is misspelt would be waited for, and nothing said."""
    if missing := sorted(set(wanted_tables(config)) - set(there)):
        raise Misconfigured(
            f"the database has no table {', '.join(missing)} that {config.name} may read",
            hint="correct `tables`, create it, or grant SELECT on it; see headwater capture check",
        )


def server_id(config: CaptureConfig) -> int:
    """Every replica needs its own number: from the capture's name, high up, unless it is given."""
    given = int(config.option("server_id", 0))
    return given or 0x40000000 | zlib.crc32(config.name.encode()) & 0x3FFFFFFF
