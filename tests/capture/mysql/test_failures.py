"""What a capture does when the server goes away, loses its log, or was never fit for it."""

from __future__ import annotations

import dataclasses
import time

import pytest

from headwater.capture.errors import Gap, Interrupted, Misconfigured, SchemaUnknown, SourceRefused
from tests.capture.mysql.captured import Setting
from tests.capture.mysql.server import MariaDB

# ── the server goes away ───────────────────────────────────────────────────────────────────────


def test_a_server_that_goes_away_is_an_interruption_and_it_goes_on_after(
    own_setting: Setting,
) -> None:
    setting, server = own_setting, own_setting.server
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    setting.snapshot()
    source = setting.source()
    assert setting.position is not None
    stream = source.stream(setting.position)
    next(stream)
    setting.execute("INSERT INTO t VALUES (1)")
    server.kill()
    with pytest.raises(Interrupted):
        setting.take_all(stream)
    source.close()
    with pytest.raises(Interrupted):
        setting.source().topics()
    server.start()
    setting.execute("INSERT INTO t VALUES (2)")
    setting.stream()
    assert [after["id"] for _, _, after in setting.changes("t")] == [1, 2]


def test_an_orderly_shutdown_is_an_interruption_too(own_setting: Setting) -> None:
    setting, server = own_setting, own_setting.server
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    setting.snapshot()
    assert setting.position is not None
    stream = setting.source().stream(setting.position)
    next(stream)
    server.stop()
    with pytest.raises(Interrupted):
        list(stream)
    server.start()


def test_a_server_that_writes_names_small_is_followed_whatever_its_statements_say(
    own_setting: Setting,
) -> None:
    setting, server = own_setting, own_setting.server
    server.stop()
    server.options = ["--lower-case-table-names=1"]
    server.start()
    setting.execute("CREATE TABLE T (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    setting.execute("INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (2)")
    large = setting.name.upper()
    config = setting.config()
    config = dataclasses.replace(config, url=config.url.replace(setting.name, large))
    setting.snapshot(config)
    setting.execute("INSERT INTO U VALUES (3)", f"TRUNCATE TABLE {large}.T", "RENAME TABLE U TO W")
    setting.execute("INSERT INTO W VALUES (4)")
    setting.stream(config)
    assert setting.fold("t") == setting.fold("u") == {}
    assert {"id": 4} in setting.fold("w").values()


def purge(setting: Setting) -> None:
    """Only the last file stays; the server keeps others until its engines are done with them."""
    deadline = time.monotonic() + 100
    while len(files := setting.execute("SHOW BINARY LOGS")) > 1:
        setting.execute(f"PURGE BINARY LOGS TO '{files[-1][0]}'")
        assert time.monotonic() < deadline, f"the server keeps {files}"
        time.sleep(0.02)


def test_a_replica_that_takes_over_goes_on_from_the_same_gtid(own_setting: Setting) -> None:
    setting, server = own_setting, own_setting.server
    setting.execute("RESET MASTER", "CREATE TABLE t (id INT PRIMARY KEY)")
    replica = MariaDB("--server-id=2", "--log-slave-updates", "--log-bin=other")
    try:
        replica.execute(
            f"CREATE DATABASE {setting.name}",
            "RESET MASTER",
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={server.port}, "
            "MASTER_USER='root', MASTER_USE_GTID=slave_pos",
            "START SLAVE",
        )
        setting.snapshot()
        setting.execute("INSERT INTO t VALUES (1)")
        setting.stream()
        setting.execute("INSERT INTO t VALUES (2)")
        deadline = time.monotonic() + 100
        rows = (
            f"SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{setting.name}'"
        )
        while not replica.execute(rows)[0][0] or replica.execute(
            f"SELECT COUNT(*) FROM {setting.name}.t"
        ) != [(2,)]:
            assert time.monotonic() < deadline, replica.execute("SHOW SLAVE STATUS")
            time.sleep(0.05)
        replica.execute("STOP SLAVE", f"INSERT INTO {setting.name}.t VALUES (3)")
        setting.server = replica
        setting.stream()
        replica.execute(f"INSERT INTO {setting.name}.t VALUES (4)")
        setting.stream()
        assert [after["id"] for _, _, after in setting.changes("t")] == [1, 2, 3, 4]
        assert setting.position is not None
        assert setting.position["server"] == 2 and setting.position["file"].startswith("other")
    finally:
        setting.server = server
        replica.close()


# ── the log is lost ────────────────────────────────────────────────────────────────────────────


def test_purged_logs_are_a_gap_with_the_remedy(own_setting: Setting) -> None:
    setting = own_setting
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    setting.snapshot()
    setting.execute("INSERT INTO t VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (2)")
    purge(setting)
    with pytest.raises(Gap) as lost:
        setting.stream()
    assert "purged" in str(lost.value) and "binlog_expire_logs_seconds" in str(lost.value.hint)


def test_purging_what_was_already_read_is_no_gap(own_setting: Setting) -> None:
    setting = own_setting
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)", "FLUSH BINARY LOGS")
    setting.snapshot()
    setting.execute("FLUSH BINARY LOGS")
    purge(setting)
    setting.execute("INSERT INTO t VALUES (1)")
    setting.stream()
    assert setting.fold("t") == setting.as_snapshot("t")


def test_a_server_that_was_reset_is_a_gap_though_it_has_the_same_names(
    own_setting: Setting,
) -> None:
    setting = own_setting
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    setting.snapshot()
    setting.execute("RESET MASTER", *[f"INSERT INTO t VALUES ({n})" for n in range(10, 30)])
    with pytest.raises(Gap, match="not the one that was read before"):
        setting.stream()


def test_missing_sequence_numbers_are_a_gap_unless_they_are_expected(own_setting: Setting) -> None:
    setting = own_setting
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    setting.snapshot()
    setting.execute("SET SESSION gtid_seq_no = 1000", "INSERT INTO t VALUES (1)")
    with pytest.raises(Gap, match="missing between") as jump:
        setting.stream()
    assert "gtid_jumps" in str(jump.value.hint)
    setting.stream(setting.config(options={"gtid_jumps": True}))
    assert setting.changes("t")[0][2] == {"id": 1}


def test_rows_logged_without_names_have_those_that_are_certain(own_setting: Setting) -> None:
    setting = own_setting
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT UNSIGNED, u UUID)")
    setting.snapshot()
    uuid = "123e4567-e89b-12d3-a456-426655440000"
    setting.execute(
        "SET GLOBAL binlog_row_metadata = NO_LOG", f"INSERT INTO t VALUES (1, 4000000000, '{uuid}')"
    )
    setting.stream()
    setting.execute("ALTER TABLE t RENAME COLUMN a TO b", f"INSERT INTO t VALUES (2, 5, '{uuid}')")
    setting.stream()
    assert [after for _, _, after in setting.changes("t")] == [
        {"id": 1, "a": 4000000000, "u": uuid},
        {"id": 2, "b": 5, "u": uuid},
    ]


def test_old_rows_of_a_table_logged_without_names_are_no_rows(own_setting: Setting) -> None:
    """The key in the log has the end of the period; without it old values came after the new ones."""
    setting = own_setting
    setting.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, n INT, b TIMESTAMP(6) GENERATED ALWAYS AS ROW START, "
        "e TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (b, e)) WITH SYSTEM VERSIONING",
        "INSERT INTO t (id, n) VALUES (1, 1), (2, 1)",
    )
    setting.snapshot()
    setting.execute(
        "SET GLOBAL binlog_row_metadata = NO_LOG",
        "UPDATE t SET n = 2 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
    )
    setting.stream()
    found = [(op, (after or before)["n"]) for op, before, after in setting.changes("t")]
    assert found == [("r", 1), ("r", 1), ("u", 2), ("d", 1)]


def test_rows_logged_without_names_are_refused_where_they_would_be_a_guess(
    own_setting: Setting,
) -> None:
    setting = own_setting
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    setting.snapshot()
    setting.execute(
        "SET GLOBAL binlog_row_metadata = NO_LOG",
        "ALTER TABLE t RENAME COLUMN a TO c",
        "INSERT INTO t VALUES (1, 2, 3)",
        "ALTER TABLE t RENAME COLUMN b TO d",
    )
    with pytest.raises(SchemaUnknown, match="without the names") as unknown:
        setting.stream()
    assert "--resnapshot" in str(unknown.value.hint)


# ── the preflight check ────────────────────────────────────────────────────────────────────────


def test_a_server_that_is_set_up_well_passes_every_check(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    assert [found for found in setting.findings().values() if not found.ok] == []


def test_every_setting_that_is_wrong_is_found_and_its_remedy_works(own_setting: Setting) -> None:
    setting = own_setting
    setting.execute(
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "SET GLOBAL binlog_format = MIXED",
        "SET GLOBAL binlog_row_image = MINIMAL",
        "SET GLOBAL binlog_row_metadata = NO_LOG",
        "SET GLOBAL binlog_expire_logs_seconds = 60",
    )
    found = {name: finding for name, finding in setting.findings().items() if not finding.ok}
    assert set(found) == {"binlog_format", "binlog_row_image", "binlog_row_metadata", "retention"}
    with pytest.raises(SourceRefused, match="binlog_format"):
        setting.snapshot()
    for finding in found.values():
        assert finding.remedy is not None
        setting.execute(finding.remedy.partition(" (")[0])
    assert all(finding.ok for finding in setting.findings().values())


def test_a_server_without_binary_log_is_refused(own_setting: Setting) -> None:
    setting, server = own_setting, own_setting.server
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    server.stop()
    server.options = ["--skip-log-bin"]
    server.start()
    found = setting.findings()["log_bin"]
    assert not found.ok and "restart" in str(found.remedy)
    with pytest.raises(SourceRefused, match="binary log is off"):
        setting.snapshot()


def test_missing_privileges_are_found_and_granted_by_the_statement_given(
    own_setting: Setting,
) -> None:
    setting = own_setting
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE USER poor@'127.0.0.1'")
    found = setting.findings(user="poor")
    assert {name for name, finding in found.items() if not finding.ok} == {
        "privilege BINLOG MONITOR",
        "privilege REPLICATION SLAVE",
        "tables",
    }
    for name in ("privilege BINLOG MONITOR", "privilege REPLICATION SLAVE"):
        setting.execute(str(found[name].remedy))
    setting.execute(f"GRANT SELECT ON {setting.name}.* TO poor@'127.0.0.1'")
    assert all(finding.ok for finding in setting.findings(user="poor").values())
    setting.snapshot(setting.config(user="poor"))
    setting.execute("INSERT INTO t VALUES (1)")
    setting.stream(setting.config(user="poor"))
    assert setting.changes("t")[0][2] == {"id": 1}


def test_a_wrong_password_is_one_finding_and_no_endless_retry(setting: Setting) -> None:
    found = setting.findings(user="nobody")
    assert list(found) == ["connection"] and not found["connection"].ok
    with pytest.raises(SourceRefused):
        setting.snapshot(setting.config(user="nobody"))


def test_tables_that_cannot_be_captured_well_are_named(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (v INT)", "CREATE TABLE m (id INT PRIMARY KEY) ENGINE = Aria")
    found = setting.findings()
    assert "no primary key" in found["table t"].sentence
    assert found["table m"].remedy == f"ALTER TABLE `{setting.name}`.`m` ENGINE = InnoDB"
    missing = {finding.name: finding for finding in setting.source(setting.config("nix")).check()}
    assert "nix" in missing["tables"].sentence
    # A run would wait for it without a word.
    with pytest.raises(Misconfigured, match="no table nix"):
        setting.snapshot(setting.config("t", "nix"))


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("mariadb://root@127.0.0.1:1", {}),
        ("mariadb://root@127.0.0.1:1/db?ssl=yes", {}),
        ("mariadb://root@127.0.0.1:1/db?ssl-mode=maybe", {}),
        ("mariadb://root@127.0.0.1:1/db", {"decimals": "roman"}),
        ("mariadb://root@127.0.0.1:1/db", {"zero_dates": "never"}),
        ("mariadb://root@127.0.0.1:1/db", {"server_id": -1}),
        ("mariadb://root@127.0.0.1:1/db", {"colour": "blue"}),
    ],
)
def test_settings_that_make_no_sense_are_refused(url: str, options: dict[str, object]) -> None:
    from headwater.capture.config import CaptureConfig
    from headwater.capture.mysql.source import MariaDBSource

    with pytest.raises(Misconfigured) as refused:
        MariaDBSource(CaptureConfig("shop", url, options=options))
    assert refused.value.hint
