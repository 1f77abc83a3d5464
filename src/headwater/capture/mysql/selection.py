"""Which tables are captured, by the settings; for `source`, `tables` and `preflight`."""

from __future__ import annotations

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
