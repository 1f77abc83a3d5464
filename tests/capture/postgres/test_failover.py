"""A standby takes over: level with the capture, and behind it."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.capture.config import CaptureConfig
from headwater.capture.errors import Gap
from headwater.capture.postgres.source import PostgresSource
from tests.capture.postgres.driven import Driven
from tests.capture.postgres.running import eventually
from tests.capture.postgres.server import postgres
from tests.capture.postgres.standby import in_step, standby_of
from tests.capture.servers.builds import POSTGRES_18, Build
from tests.capture.servers.versions import POSTGRES_17


@pytest.mark.parametrize("standing", ["ahead", "level", "behind"])
@pytest.mark.parametrize(
    "build",
    [pytest.param(POSTGRES_17, marks=pytest.mark.soak), POSTGRES_18],
    ids=lambda build: build.name,
)
def test_a_standby_that_takes_over_goes_on_if_it_has_what_the_log_has(
    build: Build, standing: str
) -> None:
    with postgres(build=build) as primary:
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
            if standing == "behind":
                standby.stop()
            primary.execute("INSERT INTO t SELECT generate_series(101, 600)", **shop)
            if standing != "ahead":  # of the log, which has not got these yet
                run.stream(primary)
                assert len(run.rows("t")) == 600
            if standing == "behind":
                primary.kill()
                standby.start()
            else:
                in_step(primary, standby)
                primary.kill()
            standby.execute("SELECT pg_promote()")
            standby.execute("INSERT INTO t SELECT generate_series(1001, 1100)", **shop)
            if standing == "behind":
                with pytest.raises(Gap, match="it was behind when it took over"):
                    run.stream(standby)
            else:
                run.stream(standby)
                assert len(run.rows("t")) == 700
                assert run.position["timeline"] == 2


def test_how_far_a_standby_is_behind_is_known_also_while_it_stands_still() -> None:
    with postgres() as primary, standby_of(primary) as standby:
        in_step(primary, standby)
        source = PostgresSource(CaptureConfig("shop", primary.url("postgres")))
        try:
            eventually("it is known", lambda: source.replica_lag_s() is not None)
            standby.execute("SELECT pg_wal_replay_pause()")
            primary.execute("CREATE TABLE t (id int)")
            eventually("it is behind", lambda: (source.replica_lag_s() or 0) > 0.5)
            standby.execute("SELECT pg_wal_replay_resume()")
            in_step(primary, standby)
            eventually("it is level", lambda: (source.replica_lag_s() or 0) < 0.5)
        finally:
            source.close()
