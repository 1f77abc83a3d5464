"""What keeps the source safe: idle progress, gaps that are said, a check that tells what to mend."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from headwater import testing
from headwater.capture.change import Batch
from headwater.capture.errors import Gap, Misconfigured, SourceRefused
from headwater.capture.postgres import open_source
from headwater.capture.removal import forget
from headwater.capture.runner import Runner
from headwater.capture.source import Finding
from headwater.capture.writer import Writer
from tests.capture.postgres.running import Setting, eventually
from tests.capture.postgres.server import postgres

_WRITES = "SET default_transaction_read_only = off"


def confirmed(setting: Setting) -> int:
    [(lsn,)] = setting.execute(
        "SELECT (confirmed_flush_lsn - '0/0')::int8 FROM pg_replication_slots "
        f"WHERE database = '{setting.name}'"
    )
    return int(lsn)


def test_an_idle_table_does_not_hold_the_servers_log(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY)", "CREATE TABLE other (id int)")
    with setting.running(setting.config("t"), heartbeat_s=0.2):
        before = confirmed(setting)
        setting.execute("INSERT INTO other SELECT generate_series(1, 1000)")
        [(end,)] = setting.execute("SELECT (pg_current_wal_lsn() - '0/0')::int8")
        assert before < end
        eventually("the slot moves although nothing is captured", lambda: confirmed(setting) >= end)


def test_the_slot_never_confirms_what_the_log_does_not_have(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with setting.running(setting.config("t")) as runner:
        for n in range(20):
            setting.execute(f"INSERT INTO t VALUES ({n})")
            slot = confirmed(setting)
            # Asked in this order, the stored position can only be further.
            assert slot <= (runner.status.position or {})["lsn"]


@pytest.mark.parametrize("loss", ["dropped", "replaced", "moved"])
def test_a_slot_that_lost_changes_is_an_error_and_no_silent_gap(
    setting: Setting, loss: str
) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (0)")
    config = setting.config("t")
    with setting.running(config) as runner:
        setting.caught_up(runner)
    slot = f"headwater_{setting.name}"
    active = f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{slot}' AND active"
    eventually("the server notices that nobody listens", lambda: not setting.execute(active))
    if loss == "moved":
        setting.execute(
            "INSERT INTO t VALUES (1)",
            f"SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())",
        )
    else:
        setting.execute(f"SELECT pg_drop_replication_slot('{slot}')", "INSERT INTO t VALUES (1)")
    if loss == "replaced":
        setting.execute(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    with pytest.raises(Gap) as caught:
        Runner(config).run()
    assert "--resnapshot" in (caught.value.hint or "")

    setting.execute("DELETE FROM t WHERE id = 0")
    forget(config)
    with setting.running(config) as runner:
        setting.caught_up(runner)
    assert list(setting.fold("t").values()) == [{"id": 1}], "what went in the gap is gone as well"


@pytest.mark.parametrize("choice", ["stop", "resnapshot"])
def test_a_slot_over_budget_is_told_or_dropped_and_the_snapshot_begins_anew(
    setting: Setting, choice: str
) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (0)")
    config = setting.config("t", options={"slot_budget_mb": 1, "slot_lost": choice})
    said: list[str] = []
    # A transaction that stays open makes the server keep everything since.
    with (
        setting.connect() as long,
        setting.running(config, say=said.append, guard_every_s=0.2) as runner,
    ):
        long.execute("SELECT pg_current_xact_id()")
        setting.execute(
            "CREATE TABLE other AS SELECT repeat('x', 2000000) FROM generate_series(1, 200)"
        )
        setting.execute("DELETE FROM t", "INSERT INTO t VALUES (1)")
        if choice == "stop":
            eventually("it is told", lambda: any("more than its budget" in s for s in said))
        else:
            # Its snapshot waits for the transactions that were there before it.
            eventually("it is dropped", lambda: any("it was dropped" in s for s in said))
            long.rollback()
            eventually("it begins anew", lambda: said.count("streaming") == 2)
        setting.caught_up(runner)
    assert list(setting.fold("t").values()) == [{"id": 1}]


def test_a_slot_that_the_server_gave_up_is_an_error_with_the_remedy() -> None:
    limits = {"max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB"}
    with postgres(limits) as server, testing.broker() as log:
        setting = Setting(server, log.bootstrap, "shop")
        server.execute("CREATE DATABASE shop")
        setting.execute("CREATE TABLE t (id int PRIMARY KEY)")
        config = setting.config("t")
        with setting.running(config) as runner:
            setting.caught_up(runner)

        def lost() -> bool:
            setting.execute(
                "SELECT pg_switch_wal()", "INSERT INTO flushed VALUES (2)", "CHECKPOINT"
            )
            [(status,)] = setting.execute("SELECT wal_status FROM pg_replication_slots")
            return bool(status == "lost")

        eventually("the server gives up the slot", lost)
        with pytest.raises(Gap, match="max_slot_wal_keep_size"):
            Runner(config).run()


def test_another_cluster_under_the_same_address_is_an_error(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY)")
    config = setting.config("t")
    with setting.running(config) as runner:
        setting.caught_up(runner)
    position = dict(runner.status.position or {})
    writer = Writer(config.name, config.bootstrap)
    writer.open()
    writer.write(Batch({**position, "system": "1234"}))
    writer.close()
    with pytest.raises(Gap, match="another PostgreSQL cluster"):
        Runner(config).run()


def test_check_names_the_command_that_mends_each_failure(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE keyed (id int PRIMARY KEY)",
        "CREATE TABLE keyless (v int)",
        f"CREATE ROLE reader_{setting.name} LOGIN",
    )
    url = setting.server.url(setting.name, f"reader_{setting.name}")
    as_reader = replace(setting.config("keyed", "keyless"), url=url)
    source = open_source(as_reader)
    failed = {finding.name: finding.remedy or "" for finding in source.check() if not finding.ok}
    source.close()
    assert set(failed) == {
        "replication role",
        'read "public"."keyed"',
        'read "public"."keyless"',
        'identity of "public"."keyless"',
        "publication",
    }
    for remedy in failed.values():
        setting.execute(remedy.partition("--")[0])
    again = open_source(as_reader)
    assert [finding for finding in again.check() if not finding.ok] == []
    again.close()

    # And with what was mended a role that is no superuser captures.
    setting.execute("INSERT INTO keyed VALUES (1)")
    config = replace(as_reader, options={"publication": f"headwater_{setting.name}"})
    with setting.running(config) as runner:
        setting.execute("INSERT INTO keyless VALUES (1)")
        setting.caught_up(runner)
    assert len(setting.read("keyed")) == 1 and len(setting.read("keyless")) == 1
    setting.execute(f"DROP OWNED BY reader_{setting.name}")


def test_check_finds_rows_without_a_key_that_a_compacted_topic_would_not_take(
    setting: Setting,
) -> None:
    setting.execute("CREATE TABLE keyless (v int)", "ALTER TABLE keyless REPLICA IDENTITY FULL")

    def found(**more: Any) -> Finding:
        with closing(open_source(replace(setting.config("keyless"), **more))) as source:
            (finding,) = [each for each in source.check() if each.name.startswith("key of")]
            return finding

    compacted = {"cleanup.policy": "compact"}
    assert found().ok
    refused = found(topic_config=compacted)
    assert not refused.ok and "dead letter" in refused.sentence
    assert "ADD PRIMARY KEY" in (refused.remedy or "")
    # A topic that is there counts, whatever the settings say; and these do where nobody answers.
    writer = Writer(setting.name, setting.bootstrap)
    writer.ensure_topics([f"{setting.name}.keyless"], compacted, 1)
    assert not found().ok
    assert not found(topic_config=compacted, bootstrap="127.0.0.1:1").ok


@pytest.mark.parametrize("partitioned", [False, True])
def test_check_finds_large_values_that_a_compacted_topic_would_lose(
    setting: Setting, partitioned: bool
) -> None:
    by = "PARTITION BY RANGE (id)" if partitioned else ""
    setting.execute(f"CREATE TABLE t (id int PRIMARY KEY, s text) {by}")
    if partitioned:
        setting.execute("CREATE TABLE t1 PARTITION OF t DEFAULT")

    def found(policy: str) -> list[Finding]:
        config = replace(setting.config("t"), topic_config={"cleanup.policy": policy})
        with closing(open_source(config)) as source:
            return [each for each in source.check() if each.name.startswith("large values")]

    setting.execute("INSERT INTO t VALUES (1, 'short')")
    assert found("compact") == []
    setting.execute(
        "ALTER TABLE t ALTER s SET STORAGE EXTERNAL", "INSERT INTO t VALUES (2, repeat('x', 9000))"
    )
    assert found("delete") == []
    (finding,) = found("compact")
    assert not finding.ok and finding.remedy is not None
    setting.execute(finding.remedy)
    assert found("compact") == []


def test_check_finds_a_server_without_logical_wal() -> None:
    with postgres({"wal_level": "replica"}) as server:
        config = Setting(server, "127.0.0.1:1", "postgres").config()
        source = open_source(config)
        failed = {finding.name: finding.remedy for finding in source.check() if not finding.ok}
        source.close()
        assert failed["wal_level"] is not None and "wal_level = logical" in failed["wal_level"]


def test_an_option_or_a_table_that_does_not_exist_is_said(setting: Setting) -> None:
    with pytest.raises(Misconfigured, match="no setting 'slots'"):
        open_source(setting.config(options={"slots": "x"}))
    source = open_source(setting.config("nowhere"))
    with pytest.raises(Misconfigured, match=r"no table public\.nowhere"):
        source.topics()
    source.close()


def test_rows_that_a_policy_hides_are_never_left_out_in_silence(setting: Setting) -> None:
    role = f"{setting.name}_reader"
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t VALUES (1), (2)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
        "CREATE POLICY own ON t USING (id = 1)",
        f"CREATE ROLE {role} LOGIN REPLICATION",
        f"GRANT CREATE ON DATABASE {setting.name} TO {role}",
        f"GRANT SELECT ON t TO {role}",
        f"CREATE PUBLICATION headwater_{setting.name} FOR TABLE t",
        f"ALTER DATABASE {setting.name} SET default_transaction_read_only = on",
    )
    url = setting.config().url.replace("postgres@", f"{role}@")
    config = replace(setting.config("t"), url=url)
    try:
        with closing(open_source(config)) as source:
            [wrong] = [each for each in source.check() if not each.ok]
            assert wrong.name == 'every row of "public"."t"'
            source.topics()
            with pytest.raises(SourceRefused, match="row-level security"):
                list(source.snapshot(None))
        setting.execute(_WRITES, wrong.remedy.partition("--")[0])
        with closing(open_source(config)) as source:
            assert sum(batch.rows for batch in source.snapshot(None)) == 2
    finally:
        setting.execute(
            _WRITES,
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            f"WHERE database = '{setting.name}'",
            f"DROP OWNED BY {role}",
            f"DROP ROLE {role}",
        )
