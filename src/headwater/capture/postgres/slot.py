"""Publication and slot: made for the user, found again, checked for continuity, watched for size.

Called by `source`. A slot makes the server keep what was not captured yet, and remembers how far that
is; so it must be the slot that our position came from. What it would skip is a gap, and is said.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Any

import psycopg

from headwater.capture.change import Position
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Gap, Interrupted, Misconfigured, Refused
from headwater.capture.postgres.connection import (
    APPLICATION,
    identifier,
    lsn_number,
    lsn_text,
    plain,
)
from headwater.capture.postgres.replication import Replication

_SLOT = """
SELECT plugin::text, slot_type::text, active, restart_lsn::text, confirmed_flush_lsn::text,
       wal_status::text, safe_wal_size::int8, database::text,
       pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::int8,
       pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::int8
FROM pg_replication_slots WHERE slot_name = %s
"""

_ALL_TABLES = """
SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg_%%'
ORDER BY 1, 2
"""


@dataclass(frozen=True)
class SlotState:
    plugin: str
    kind: str
    active: bool
    restart_lsn: int
    confirmed_lsn: int
    wal_status: str
    safe_bytes: int | None
    database: str
    kept_bytes: int
    """WAL that the server keeps for this slot."""
    behind_bytes: int
    """WAL that was not acknowledged yet."""


def names(config: CaptureConfig) -> tuple[str, str]:
    """Slot and publication, by the capture's name unless the settings say otherwise."""
    plain_name = "headwater_" + re.sub(r"[^a-z0-9_]", "_", config.name.lower())
    return config.option("slot", plain_name), config.option("publication", plain_name)


def read_slot(connection: psycopg.Connection[Any], slot: str) -> SlotState | None:
    with plain():
        row = connection.execute(_SLOT, [slot]).fetchone()
    if row is None:
        return None
    plugin, kind, active, restart, confirmed, status, safe, database, kept, behind = row
    return SlotState(
        plugin or "",
        kind,
        active,
        lsn_number(restart) if restart else 0,
        lsn_number(confirmed) if confirmed else 0,
        status or "",
        safe,
        database or "",
        kept or 0,
        behind or 0,
    )


def create_slot(replication: Replication, slot: str, *, temporary: bool = False) -> tuple[int, str]:
    """A new slot: where it begins, and the name of the snapshot of just that moment.

    The snapshot can be taken up by others until `replication` does something else.
    """
    kind = "TEMPORARY " if temporary else ""
    # From PostgreSQL 17 on a standby can hold a copy of it, and a failover loses nothing.
    failover = ", FAILOVER true" if replication.server_version >= 170000 and not temporary else ""
    made = replication.query(
        f"CREATE_REPLICATION_SLOT {identifier(slot)} {kind}LOGICAL pgoutput "
        f"(SNAPSHOT 'export'{failover})"
    )[0]
    point, snapshot = made["consistent_point"], made["snapshot_name"]
    if point is None or snapshot is None:
        raise ValueError("the server made a slot without a consistent point or a snapshot")
    return lsn_number(point), snapshot


def check_continuity(
    state: SlotState | None,
    slot: str,
    position: Position,
    system: str,
    gap: type[Gap] = Gap,
) -> None:
    """Raise unless the slot still has everything after the position; `gap`: for a slot that is lost."""
    again = "start again with a new snapshot: headwater capture run NAME --resnapshot"
    if position.get("system") not in (None, system):
        raise Gap(
            f"this is another PostgreSQL cluster ({system}) than the one captured so far "
            f"({position['system']})",
            hint=f"mend `from`, or {again}",
        )
    if state is None:
        raise gap(
            f"the replication slot {slot} is gone: changes after {lsn_text(position['lsn'])} "
            "may be missing",
            hint=again,
        )
    if state.wal_status == "lost":
        raise gap(
            f"the server has given up the slot {slot} (max_slot_wal_keep_size): changes after "
            f"{lsn_text(position['lsn'])} are lost",
            hint=f"SELECT pg_drop_replication_slot('{slot}'); then {again}",
        )
    if state.confirmed_lsn > position["lsn"]:
        raise Gap(
            f"the slot {slot} is at {lsn_text(state.confirmed_lsn)}, the log only at "
            f"{lsn_text(position['lsn'])}: somebody else has moved or replaced it",
            hint=again,
        )


def usable(state: SlotState, slot: str, database: str) -> None:
    """Raise where a slot of this name is not ours to use."""
    if state.plugin != "pgoutput" or state.database != database:
        raise Misconfigured(
            f"the slot {slot} is of {state.plugin or state.kind} in database {state.database}",
            hint='give this capture another: slot = "…"',
        )


def wanted_tables(
    connection: psycopg.Connection[Any], config: CaptureConfig
) -> list[tuple[str, str]]:
    """The tables of the settings as (schema, name); without any, all there are."""
    with plain():
        found = [(row[0], row[1]) for row in connection.execute(_ALL_TABLES).fetchall()]
    if not config.tables:
        return found
    wanted: list[tuple[str, str]] = []
    for name in (*config.tables, *((config.outbox,) if config.outbox else ())):
        schema, _, table = name.rpartition(".")
        place = (schema or "public", table)
        if place not in found:
            raise Misconfigured(
                f"the database has no table {'.'.join(place)}",
                hint="name it as schema.table, or create it",
            )
        if place not in wanted:
            wanted.append(place)
    return wanted


def ensure_publication(
    connection: psycopg.Connection[Any], config: CaptureConfig, publication: str
) -> list[str]:
    """Make the publication, or add what it lacks; the tables that were added to an older one."""
    with plain():
        row = connection.execute(
            "SELECT puballtables FROM pg_publication WHERE pubname = %s", [publication]
        ).fetchone()
        if row is not None and (row[0] or "publication" in config.options):
            return []  # the user's own: its filters and column lists are the user's business
        wanted = wanted_tables(connection, config)
        if not wanted:
            raise Refused("the database has no table to capture", hint="create one")
        if row is None:
            listed = ", ".join(identifier(*place) for place in wanted)
            connection.execute(
                f"CREATE PUBLICATION {identifier(publication)} FOR TABLE {listed} "
                "WITH (publish_via_partition_root = true)"
            )
            return []
        there = {
            (schema, table)
            for schema, table in connection.execute(
                "SELECT schemaname::text, tablename::text FROM pg_publication_tables "
                "WHERE pubname = %s",
                [publication],
            ).fetchall()
        }
        missing = [place for place in wanted if place not in there] if config.tables else []
        for place in missing:
            connection.execute(
                f"ALTER PUBLICATION {identifier(publication)} ADD TABLE {identifier(*place)}"
            )
    return [".".join(place) for place in missing]


def drop_slot(connection: psycopg.Connection[Any], slot: str, timeout_s: float = 15.0) -> None:
    """Drop it once its walsender has noticed that nobody listens."""
    deadline = time.monotonic() + timeout_s
    while (state := read_slot(connection, slot)) is not None:
        if not state.active:
            with plain():
                connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
            return
        if time.monotonic() > deadline:
            raise Interrupted(f"the slot {slot} is still in use")
        time.sleep(0.05)


def release(connection: psycopg.Connection[Any], slot: str, timeout_s: float = 5.0) -> None:
    """End a walsender of an earlier run of ours that still holds the slot.

    After a network was cut the server keeps it for wal_sender_timeout. It can only be an earlier one:
    whoever comes here has fenced all others in the log.
    """
    held = (
        "SELECT a.pid FROM pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid "
        "WHERE s.slot_name = %s AND a.application_name = %s"
    )
    deadline = time.monotonic() + timeout_s
    with plain():
        while (row := connection.execute(held, [slot, APPLICATION]).fetchone()) is not None:
            try:
                connection.execute("SELECT pg_terminate_backend(%s)", [row[0]])
            except psycopg.errors.InsufficientPrivilege:
                return  # another role's: the server ends it in its own time
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)


def over_budget(state: SlotState, slot: str, budget_bytes: int) -> str | None:
    """What to say about a slot that makes the server keep more than it may."""
    if not budget_bytes or state.kept_bytes <= budget_bytes:
        return None
    return (
        f"the server keeps {state.kept_bytes >> 20} MB of WAL for the slot {slot}, "
        f"more than its budget of {budget_bytes >> 20} MB"
    )
