"""The preflight: everything that capture needs from the server, each failure with what mends it.

Called by `headwater capture check`, through the source. Reads only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg

from headwater.capture.compacted_topics import lost_values, will_be_compacted
from headwater.capture.config import CaptureConfig
from headwater.capture.errors import CaptureError, Interrupted
from headwater.capture.postgres.catalog import has_large_values
from headwater.capture.postgres.connection import Connection, connect, identifier, plain
from headwater.capture.postgres.publication import ROOT, left_out, partitions_as, wanted_tables
from headwater.capture.postgres.relations import topic_of_table
from headwater.capture.postgres.slot import read_slot
from headwater.capture.postgres.standby import standby_of
from headwater.capture.source import Finding

OLDEST = 140_000
CLOCK_S_MAX = 5.0

_ROLE = (
    "SELECT rolsuper OR rolreplication, rolname::text FROM pg_roles WHERE rolname = current_user"
)
_TABLE = """
SELECT has_table_privilege(c.oid, 'SELECT'), c.relreplident::text,
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary
               AND i.indimmediate),
       pg_has_role(c.relowner, 'USAGE'),
       EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),
       NOT row_security_active(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND c.relname = %s
"""


def findings(config: CaptureConfig, slot: str, publication: str) -> list[Finding]:
    """All that was looked at, in the order in which it should be mended."""
    try:
        connection = connect(config.url)
    except (CaptureError, Interrupted) as error:
        return [Finding("connection", False, str(error), error.hint or "start the server")]
    try:
        with plain():
            return list(_look(connection, config, slot, publication))
    finally:
        connection.close()


def _look(
    connection: psycopg.Connection[Any], config: CaptureConfig, slot: str, publication: str
) -> Iterator[Finding]:
    yield _version(connection)
    yield _wal_level(connection)
    yield _primary(connection)
    role_ok, role = _one(connection, _ROLE)
    yield Finding(
        "replication role",
        bool(role_ok),
        f"{role} may {'' if role_ok else 'not '}replicate",
        None if role_ok else f"ALTER ROLE {identifier(role)} REPLICATION;",
    )
    yield _slots(connection, slot)
    yield _senders(connection)
    yield _kept(connection)
    yield from _slot(connection, slot)
    yield from _tables(connection, config, publication, role)
    yield _clock(connection)
    if (standby := standby_of(config)) is not None:
        yield standby.finding(connection)


def _one(connection: psycopg.Connection[Any], query: str, *values: object) -> Any:
    return connection.execute(query.encode(), values).fetchone()


def _setting(connection: psycopg.Connection[Any], name: str) -> str:
    return str(_one(connection, "SELECT current_setting(%s)", name)[0])


def _version(connection: psycopg.Connection[Any]) -> Finding:
    version = connection.info.server_version
    shown = f"PostgreSQL {version // 10_000}.{version % 10_000}"
    ok = version >= OLDEST
    return Finding("version", ok, shown, None if ok else "upgrade to PostgreSQL 14 or newer")


def _wal_level(connection: psycopg.Connection[Any]) -> Finding:
    level = _setting(connection, "wal_level")
    ok = level == "logical"
    remedy = "ALTER SYSTEM SET wal_level = logical;  -- then restart the server"
    return Finding("wal_level", ok, f"wal_level is {level}", None if ok else remedy)


def _primary(connection: psycopg.Connection[Any]) -> Finding:
    standby = bool(_one(connection, "SELECT pg_is_in_recovery()")[0])
    sentence = "the server is a standby" if standby else "the server is the primary"
    remedy = "name the primary in `from`" if standby else None
    return Finding("primary", not standby, sentence, remedy)


def _slots(connection: psycopg.Connection[Any], slot: str) -> Finding:
    most = int(_setting(connection, "max_replication_slots"))
    used, ours = _one(
        connection,
        "SELECT count(*), count(*) FILTER (WHERE slot_name = %s) FROM pg_replication_slots",
        slot,
    )
    # Going on with a snapshot after a kill needs a second one for a while.
    ok = bool(ours) or used + 2 <= most
    remedy = f"ALTER SYSTEM SET max_replication_slots = {most + 4};  -- then restart the server"
    return Finding("replication slots", ok, f"{used} of {most} in use", None if ok else remedy)


def _senders(connection: psycopg.Connection[Any]) -> Finding:
    most = int(_setting(connection, "max_wal_senders"))
    used = int(_one(connection, "SELECT count(*) FROM pg_stat_replication")[0])
    ok = used + 2 <= most
    remedy = f"ALTER SYSTEM SET max_wal_senders = {most + 4};  -- then restart the server"
    return Finding("WAL senders", ok, f"{used} of {most} in use", None if ok else remedy)


def _kept(connection: psycopg.Connection[Any]) -> Finding:
    most = _setting(connection, "max_slot_wal_keep_size")
    if most == "-1":
        sentence = (
            "max_slot_wal_keep_size has no limit: a capture that is stopped for long fills the disk "
            "(ALTER SYSTEM SET max_slot_wal_keep_size = '50GB' bounds it)"
        )
    else:
        sentence = f"a slot keeps at most {most} of WAL"
    return Finding("WAL kept", True, sentence)


def _slot(connection: psycopg.Connection[Any], slot: str) -> Iterator[Finding]:
    state = read_slot(connection, slot)
    if state is None:
        return
    ok = state.wal_status != "lost" and state.plugin == "pgoutput"
    sentence = f"{slot}: {state.plugin}, {state.wal_status}, {state.behind_bytes} bytes behind"
    remedy = (
        f"SELECT pg_drop_replication_slot('{slot}');  -- then headwater capture run --resnapshot"
    )
    yield Finding("slot", ok, sentence, None if ok else remedy)


def _tables(
    connection: psycopg.Connection[Any], config: CaptureConfig, publication: str, role: str
) -> Iterator[Finding]:
    exists = _one(connection, "SELECT 1 FROM pg_publication WHERE pubname = %s", publication)
    may = bool(_one(connection, "SELECT has_database_privilege(current_database(), 'CREATE')")[0])
    try:
        wanted = wanted_tables(connection, config)
    except CaptureError as error:
        yield Finding("tables", False, str(error), error.hint)
        return
    owned = True
    for schema, name in wanted:
        readable, identity, keyed, owner, primary, whole = _one(connection, _TABLE, schema, name)
        owned = owned and owner
        yield from _table(identifier(schema, name), readable, identity, keyed, role)
        if not whole:
            yield _hidden(identifier(schema, name), role)
        if identity == "f" and not primary:
            yield _keyless(config, schema, name)
        if identity != "f" and has_large_values(connection, schema, name):
            topic = topic_of_table(config.name, schema, name)
            yield from lost_values(config, topic, identifier(schema, name))
    yield from left_out(connection, publication)
    ok = bool(exists) or (may and owned)
    listed = ", ".join(identifier(*place) for place in wanted)
    sentence = f"{publication} {'exists' if exists else 'can be created' if ok else 'is missing'}"
    root = str(partitions_as(config) == ROOT).lower()
    remedy = (
        f"CREATE PUBLICATION {identifier(publication)} FOR TABLE {listed} "
        f"WITH (publish_via_partition_root = {root});  -- as the tables' owner"
    )
    yield Finding("publication", ok, sentence, None if ok else remedy)


def _table(shown: str, readable: bool, identity: str, keyed: bool, role: str) -> Iterator[Finding]:
    yield Finding(
        f"read {shown}",
        readable,
        f"{role} may {'' if readable else 'not '}read {shown}",
        None if readable else f"GRANT SELECT ON {shown} TO {identifier(role)};",
    )
    known = identity in ("f", "i") or (identity == "d" and keyed)
    kinds = {"d": "primary key", "f": "full row", "i": "index", "n": "nothing"}
    sentence = f"rows of {shown} are identified by: {kinds[identity] if known else 'nothing'}"
    if not known:
        sentence += "; the server will refuse its updates and deletes once it is published"
    remedy = f"ALTER TABLE {shown} REPLICA IDENTITY FULL;  -- or add a primary key"
    yield Finding(f"identity of {shown}", known, sentence, None if known else remedy)


def _hidden(shown: str, role: str) -> Finding:
    sentence = f"row-level security keeps rows of {shown} from {role}: a snapshot would lack them"
    remedy = f"ALTER ROLE {identifier(role)} BYPASSRLS;  -- as a superuser"
    return Finding(f"every row of {shown}", False, sentence, remedy)


def _keyless(config: CaptureConfig, schema: str, name: str) -> Finding:
    shown, topic = identifier(schema, name), topic_of_table(config.name, schema, name)
    compacted = will_be_compacted(config, topic)
    sentence = f"rows of {shown} have no key" + (
        f", and its topic {topic} is compacted: each of them would become a dead letter"
        if compacted
        else ": a compacted topic would not take them"
    )
    remedy = (
        f"ALTER TABLE {shown} ADD PRIMARY KEY (…);  -- or give the topic another cleanup.policy"
    )
    return Finding(f"key of {shown}", not compacted, sentence, remedy if compacted else None)


def _clock(connection: psycopg.Connection[Any]) -> Finding:
    there = float(_one(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")[0])
    apart = abs(there - time.time())
    ok = apart <= CLOCK_S_MAX
    return Finding(
        "clock",
        ok,
        f"the clocks are {apart:.1f} s apart",
        None if ok else "set both by NTP; lag in seconds is wrong until then",
    )


_STANDBYS = """
SELECT pid::int8, replay_lsn::text, extract(epoch FROM replay_lag)::float8,
       replay_lsn < pg_current_wal_lsn()
FROM pg_stat_replication WHERE replay_lsn IS NOT NULL AND pid NOT IN
    (SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical' AND active_pid IS NOT NULL)
"""


class Standbys:
    """How far they are behind; one that stands still tells the server nothing, so it is timed here."""

    def __init__(self) -> None:
        self._since: dict[int, tuple[str, float]] = {}

    def lag_s(self, connection: Connection) -> float | None:
        with plain():
            rows = connection.execute(_STANDBYS).fetchall()
        now_s, known = time.monotonic(), self._since
        self._since = {}
        found: list[float] = []
        for pid, place, lag_s, behind in rows:
            same = known.get(pid)
            since_s = same[1] if same is not None and same[0] == place and behind else now_s
            self._since[pid] = (place, since_s)
            found.append(max(lag_s or 0.0, now_s - since_s))
        return max(found, default=None)
