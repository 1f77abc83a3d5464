"""A real standby beside a primary."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

from tests.capture.postgres.running import eventually
from tests.capture.postgres.server import PostgresServer

LEVEL = "SELECT pg_last_wal_receive_lsn() - '0/0'::pg_lsn, pg_last_wal_replay_lsn() - '0/0'::pg_lsn"


@contextlib.contextmanager
def standby_of(primary: PostgresServer) -> Iterator[PostgresServer]:
    """A copy of the primary, which is stopped for the moment, with its slots kept in step."""
    primary.execute("SELECT pg_create_physical_replication_slot('standby')")
    primary.stop()
    folder = Path(mkdtemp(prefix="headwater-standby-"))
    source = f"host=127.0.0.1 port={primary.port} user=postgres dbname=postgres"
    settings = {
        "primary_conninfo": source, "primary_slot_name": "standby", "hot_standby_feedback": "on",
    }  # fmt: skip
    standby = primary.twin(folder, settings)
    subprocess.run(["cp", "-a", primary.data, standby.data], check=True)
    for slot in (standby.data / "pg_replslot").iterdir():
        shutil.rmtree(slot)
    (standby.data / "standby.signal").touch()
    primary.start()
    try:
        standby.start()
        yield standby
    finally:
        standby.kill()
        shutil.rmtree(folder, ignore_errors=True)


def in_step(primary: PostgresServer, standby: PostgresServer) -> None:
    (wanted,) = primary.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn")[0]

    def level() -> bool:
        return all(at is not None and at >= wanted for at in standby.execute(LEVEL)[0])

    eventually("the standby has what the primary has", level)
