"""A standby takes over: level with the capture, and behind it."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from headwater.capture.errors import Gap
from tests.capture.postgres.driven import Driven
from tests.capture.postgres.running import eventually
from tests.capture.postgres.server import PostgresServer, postgres
from tests.capture.servers.builds import POSTGRES_18

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


@pytest.mark.parametrize("behind", [False, True])
def test_a_standby_that_takes_over_goes_on_if_it_has_what_the_log_has(behind: bool) -> None:
    with postgres(build=POSTGRES_18) as primary:
        primary.execute("CREATE DATABASE shop")
        with standby_of(primary) as standby:
            run: Any = Driven("shop")
            shop = {"database": "shop"}
            primary.execute("CREATE TABLE t (id int PRIMARY KEY)", **shop)
            primary.execute("INSERT INTO t SELECT generate_series(1, 100)", **shop)
            run.snapshot(primary)
            run.stream(primary)
            in_step(primary, standby)
            standby.execute("SELECT pg_sync_replication_slots()")
            if behind:
                standby.stop()
            primary.execute("INSERT INTO t SELECT generate_series(101, 600)", **shop)
            run.stream(primary)
            assert len(run.rows("t")) == 600
            if behind:
                primary.kill()
                standby.start()
            else:
                in_step(primary, standby)
                primary.kill()
            standby.execute("SELECT pg_promote()")
            standby.execute("INSERT INTO t SELECT generate_series(1001, 1100)", **shop)
            if behind:
                with pytest.raises(Gap, match="it was behind when it took over"):
                    run.stream(standby)
            else:
                run.stream(standby)
                assert len(run.rows("t")) == 700
                assert run.position["timeline"] == 2
