"""Publication and slot: made for the user, found again, checked for continuity, watched for size.

Called by `source`. A slot makes the server keep what was not captured yet, and remembers how far that
is; so it must be the slot that our position came from. What it would skip is a gap, and is said.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

import psycopg

from headwater.capture.change import Lag, Position
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Gap, Interrupted, Misconfigured
from headwater.capture.postgres.connection import (
    APPLICATION,
    Connection,
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

PAGE_BYTES, PAGE_HEADER_BYTES = 8192, 40


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

    def facts(self, slot: str) -> tuple[tuple[str, str | int], ...]:
        """For people; whole numbers are bytes."""
        found: tuple[tuple[str, str | int], ...] = (
            ("Slot", f"{slot}, {'in use' if self.active else 'nobody reads it'}"),
            ("State of its WAL", self.wal_status),
            ("WAL kept for it", self.kept_bytes),
            ("Not acknowledged", self.behind_bytes),
        )
        return found if self.safe_bytes is None else (*found, ("Until it is lost", self.safe_bytes))

    def lag(self, slot: str) -> Lag:
        kept = f"the server keeps {self.kept_bytes} bytes of WAL for it ({self.wal_status})"
        return Lag(bytes=self.behind_bytes, detail=kept, facts=self.facts(slot))


def names(config: CaptureConfig) -> tuple[str, str]:
    """Slot and publication, by the capture's name unless the settings say otherwise."""
    plain_name = "headwater_" + re.sub(r"[^a-z0-9_]", "_", config.name.lower())
    return config.option("slot", plain_name), config.option("publication", plain_name)


def read_slot(connection: Connection, slot: str) -> SlotState | None:
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


def create_slot(
    replication: Replication, slot: str, *, temporary: bool = False, export: bool = True
) -> tuple[int, str]:
    """A new slot: where it begins, and the name of the snapshot of just that moment.

    It can be taken up by others, and holds up vacuum, until `replication` does something else.
    """
    kind = "TEMPORARY " if temporary else ""
    # From PostgreSQL 17 on a standby can hold a copy of it, and a failover loses nothing.
    failover = ", FAILOVER true" if replication.server_version >= 170000 and not temporary else ""
    options = f"(SNAPSHOT '{'export' if export else 'nothing'}'{failover})"
    if replication.server_version < 150000:
        options = "EXPORT_SNAPSHOT" if export else "NOEXPORT_SNAPSHOT"
    made = replication.query(
        f"CREATE_REPLICATION_SLOT {identifier(slot)} {kind}LOGICAL pgoutput {options}"
    )[0]
    point, snapshot = made["consistent_point"], made["snapshot_name"]
    if point is None or (export and snapshot is None):
        raise ValueError("the server made a slot without a consistent point or a snapshot")
    return lsn_number(point), snapshot or ""


def system(connection: Connection) -> str:
    """The cluster's id, which a copy of it shares."""
    with plain():
        row = connection.execute(
            "SELECT system_identifier::text FROM pg_control_system()"
        ).fetchone()
    assert row is not None
    return str(row[0])


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
            hint=f"correct `from`, or {again}",
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


def timeline(url: str, position: Position) -> int:
    asking = Replication(url)
    try:
        return check_timeline(asking, position)
    finally:
        asking.close()


def check_timeline(replication: Replication, position: Position) -> int:
    """The server's timeline now; Gap where its history left that of the position before the position.

    A standby that took over begins a timeline of its own where it was. Had the log come further, then it
    has changes that this server never had, and this server's next ones lie before the position.
    """
    found = replication.query("IDENTIFY_SYSTEM")[0]
    now, end = int(found["timeline"] or 0), lsn_number(found["xlogpos"] or "0/0")
    then = position.get("timeline", now)
    if then != now:
        end = _left_at(replication, now, then)
    if position["lsn"] > _next_record(end):
        raise Gap(
            f"the log has changes up to {lsn_text(position['lsn'])}, and this server went its own way "
            f"at {lsn_text(end)} (timeline {then}, now {now}): it was behind when it took over, or was "
            "restored; what it never had is in the log, and its own changes would be left out",
            hint="start again with a new snapshot: headwater capture run NAME --resnapshot; and let no "
            "standby fall behind a capture: synchronized_standby_slots (PostgreSQL 17 and later)",
        )
    return now


def _left_at(replication: Replication, now: int, then: int) -> int:
    """Where the history of timeline `now` leaves timeline `then`; 0 where it never was on it."""
    if now <= then:
        return 0
    told = replication.query(f"TIMELINE_HISTORY {now}")[0]["content"] or ""
    for line in told.splitlines():
        parent, _, rest = line.strip().partition("\t")
        if parent == str(then):
            return lsn_number(rest.partition("\t")[0])
    return 0


def _next_record(lsn: int) -> int:
    """Behind the header of a page, if a page begins there."""
    return lsn + PAGE_HEADER_BYTES if lsn % PAGE_BYTES == 0 else lsn


def usable(state: SlotState, slot: str, database: str) -> None:
    """Raise where a slot of this name is not ours to use."""
    if state.plugin != "pgoutput" or state.database != database:
        raise Misconfigured(
            f"the slot {slot} is of {state.plugin or state.kind} in database {state.database}",
            hint='give this capture another: slot = "…"',
        )


def drop_slot(connection: Connection, slot: str) -> None:
    """Drop it once its walsender has noticed that nobody listens."""
    deadline = time.monotonic() + 15.0
    while (state := read_slot(connection, slot)) is not None:
        if not state.active:
            with plain():
                connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
            return
        if time.monotonic() > deadline:
            raise Interrupted(f"the slot {slot} is still in use")
        time.sleep(0.05)


def release(connection: Connection, slot: str) -> None:
    """End a walsender of an earlier run of ours that still holds the slot.

    After a network was cut the server keeps it for wal_sender_timeout. It can only be an earlier one:
    whoever comes here has fenced all others in the log.
    """
    held = (
        "SELECT a.pid FROM pg_replication_slots s JOIN pg_stat_activity a ON a.pid = s.active_pid "
        "WHERE s.slot_name = %s AND a.application_name = %s"
    )
    deadline = time.monotonic() + 5.0
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
