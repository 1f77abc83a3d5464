"""The stream on a real server: transactions, keys, schemas of their moment, partial images, large ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headwater.capture.envelope import UNAVAILABLE
from headwater.capture.errors import Gap, SourceRefused
from tests.capture.mysql.captured import Setting

GONE = json.loads(UNAVAILABLE)


def ops(setting: Setting, table: str) -> list[tuple[str, Any]]:
    return [(op, after or before) for op, before, after in setting.changes(table)]


def test_transactions_come_in_commit_order_with_their_counts(setting: Setting) -> None:
    setting.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)")
    config = setting.config(transactions=True)
    setting.snapshot(config)
    setting.execute(
        "BEGIN",
        "INSERT INTO a VALUES (1), (2)",
        "INSERT INTO b VALUES (1)",
        "DELETE FROM a WHERE id = 2",
        "COMMIT",
    )
    new = setting.stream(config)
    told = [value for topic, _, value in new if topic == f"{setting.name}.transaction"]
    assert [value["status"] for value in told] == ["BEGIN", "END"]
    assert told[1]["event_count"] == 4
    assert told[1]["data_collections"] == [
        {"data_collection": f"{setting.name}.a", "event_count": 3},
        {"data_collection": f"{setting.name}.b", "event_count": 1},
    ]
    rows = [value for _, _, value in new if value and "op" in value]
    assert [value["transaction"]["total_order"] for value in rows] == [1, 2, 3, 4]
    assert [value["transaction"]["data_collection_order"] for value in rows] == [1, 2, 1, 3]
    assert {value["transaction"]["id"] for value in rows} == {told[0]["id"]}
    assert rows[0]["source"]["gtid"] == told[0]["id"]
    assert rows[1]["source"]["row"] == 1


def test_what_is_rolled_back_never_comes(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    setting.snapshot()
    setting.execute(
        "BEGIN",
        "INSERT INTO t VALUES (1)",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (2)",
        "ROLLBACK TO s",
        "INSERT INTO t VALUES (3)",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t VALUES (4)",
        "ROLLBACK",
    )
    setting.stream()
    assert ops(setting, "t") == [("c", {"id": 1}), ("c", {"id": 3})]


def test_a_rollback_that_the_log_had_to_note_keeps_only_what_could_not_roll_back(
    setting: Setting,
) -> None:
    """With a table that cannot roll back, the server logs the rows and then their rollback."""
    setting.execute(
        "CREATE TABLE t (id INT PRIMARY KEY)",
        "CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM",
    )
    setting.snapshot()
    setting.execute(
        "BEGIN",
        "INSERT INTO t VALUES (1)",
        "SAVEPOINT s",
        "INSERT INTO t VALUES (2)",
        "INSERT INTO m SELECT id + 10 FROM t",
        "ROLLBACK TO s",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t VALUES (3)",
        "INSERT INTO m SELECT id + 20 FROM t",
        "ROLLBACK",
    )
    setting.stream()
    assert setting.fold("t") == setting.as_snapshot("t")
    assert setting.fold("m") == setting.as_snapshot("m")
    assert len(setting.fold("t")) == 1 and len(setting.fold("m")) == 4


def test_a_changed_key_is_a_delete_a_tombstone_and_a_create(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 5)")
    setting.snapshot()
    setting.execute("UPDATE t SET id = 2")
    new = [(key, value and value["op"]) for _, key, value in setting.stream()]
    assert new == [({"id": 1}, "d"), ({"id": 1}, None), ({"id": 2}, "c")]


def test_a_row_is_decoded_with_the_schema_of_its_moment(setting: Setting) -> None:
    """All of it is in the log before it is read: today's columns would name the old rows wrongly."""
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9), e ENUM('x','y'))")
    setting.snapshot()
    setting.execute(
        "INSERT INTO t VALUES (1, 1, 'one', 'y')",
        "ALTER TABLE t MODIFY e ENUM('y','x') FIRST",
        "INSERT INTO t VALUES ('y', 2, 2, 'two')",
        "ALTER TABLE t CHANGE a c INT UNSIGNED, RENAME COLUMN b TO a",
        "INSERT INTO t (id, c, a) VALUES (3, 4000000000, 'three')",
        "ALTER TABLE t DROP COLUMN a, ADD COLUMN d DECIMAL(5,2) DEFAULT 1.25 AFTER id",
        "INSERT INTO t (id) VALUES (4)",
        "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, d)",
        "INSERT INTO t (id) VALUES (5)",
    )
    new = setting.stream()
    changes = [(key, value) for topic, key, value in new if topic.endswith(".t")]
    rows = [(key, value["after"]) for key, value in changes if value["op"] == "c"]
    assert rows == [
        ({"id": 1}, {"id": 1, "a": 1, "b": "one", "e": "y"}),
        ({"id": 2}, {"e": "y", "id": 2, "a": 2, "b": "two"}),
        ({"id": 3}, {"e": None, "id": 3, "c": 4000000000, "a": "three"}),
        ({"id": 4}, {"e": None, "id": 4, "d": "1.25", "c": None}),
        ({"id": 5, "d": "1.25"}, {"e": None, "id": 5, "d": "1.25", "c": None}),
    ]
    told = [value for topic, _, value in new if topic == f"{setting.name}.schema-changes"]
    assert [value["ddl"][:11] for value in told if value["ddl"]] == ["ALTER TABLE"] * 4
    last = [value["changes"] for value in told if value["changes"]][-2]
    policy = {"d": "flows", "a": "null"}
    assert last == {"added": ["d"], "dropped": ["a"], "retyped": [], "policy": policy}
    assert all(value["source"]["gtid"] for value in told)


def test_a_schema_has_the_default_of_a_column_that_must_have_a_value(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL DEFAULT 3)")
    config = setting.config(schema=True)
    setting.snapshot(config)
    setting.execute("INSERT INTO t (id) VALUES (1)")
    (old,) = [value for topic, _, value in setting.stream(config) if topic.endswith(".t")]
    setting.execute(
        "ALTER TABLE t ADD b VARCHAR(9) NOT NULL DEFAULT 'it''s', ADD c DOUBLE NOT NULL DEFAULT 0.5, "
        "ADD d TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, ADD e INT DEFAULT 9",
        "INSERT INTO t (id) VALUES (2)",
    )
    (new,) = [value for topic, _, value in setting.stream(config) if topic.endswith(".t")]
    assert _defaults(old) == {"a": 3}
    assert _defaults(new) == {"a": 3, "b": "it's", "c": 0.5}


def _defaults(value: Any) -> dict[str, object]:
    (after,) = [each for each in value["schema"]["fields"] if each["field"] == "after"]
    return {each["field"]: each["default"] for each in after["fields"] if "default" in each}


def test_a_new_table_flows_and_a_truncate_empties(setting: Setting) -> None:
    setting.execute("CREATE TABLE old (id INT PRIMARY KEY)", "INSERT INTO old VALUES (1)")
    setting.snapshot()
    setting.execute(
        "CREATE TABLE fresh (id INT PRIMARY KEY) SELECT 7 AS id",
        "TRUNCATE TABLE old",
        "INSERT INTO old VALUES (2)",
        "RENAME TABLE old TO older",
        "INSERT INTO older VALUES (3)",
        "DROP TABLE fresh",
    )
    setting.stream()
    assert ops(setting, "fresh") == [("c", {"id": 7}), ("t", None)]
    # The name that the table has left has no rows any more.
    assert ops(setting, "old") == [("r", {"id": 1}), ("t", None), ("c", {"id": 2}), ("t", None)]
    # What it had before its rename is read while the stream goes on.
    assert ops(setting, "older")[:2] == [("t", None), ("c", {"id": 3})]


def test_only_the_named_tables_of_the_database_are_captured(setting: Setting) -> None:
    config = setting.config("t")
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE u (id INT PRIMARY KEY)")
    setting.snapshot(config)
    setting.execute(
        "INSERT INTO u VALUES (1)",
        "INSERT INTO t VALUES (1)",
        f"CREATE DATABASE {setting.name}_other",
        f"CREATE TABLE {setting.name}_other.t (id INT)",
        f"INSERT INTO {setting.name}_other.t VALUES (5)",
        f"DROP DATABASE {setting.name}_other",
    )
    new = setting.stream(config)
    assert [(topic, key) for topic, key, _ in new] == [(f"{setting.name}.t", {"id": 1})]


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_columns_that_the_server_left_out_are_marked_and_never_null(
    setting: Setting, image: str
) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b TEXT, c VARCHAR(9))")
    setting.snapshot()
    setting.execute(
        f"SET SESSION binlog_row_image = {image}",
        "INSERT INTO t VALUES (1, 1, 'text', 'c')",
        "UPDATE t SET a = NULL",
        "UPDATE t SET id = 2",
        "DELETE FROM t",
    )
    setting.stream()
    created, updated, moved, recreated, deleted = setting.changes("t")
    left = GONE if image == "MINIMAL" else "c"
    assert created[2] == {"id": 1, "a": 1, "b": "text", "c": "c"}
    assert updated[2] == {"id": 1, "a": None, "b": GONE, "c": left}
    assert recreated[2]["id"] == 2 and recreated[2]["b"] == GONE
    assert moved[0] == "d" and moved[1]["id"] == 1
    assert deleted[1]["id"] == 2 and deleted[1]["b"] == GONE


def test_compressed_events_are_read(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    setting.snapshot()
    try:
        setting.execute(
            "SET GLOBAL log_bin_compress = ON, GLOBAL log_bin_compress_min_len = 10",
            "INSERT INTO t VALUES (1, REPEAT('a', 5000))",
            "UPDATE t SET v = REPEAT('b', 5000)",
            f"ALTER TABLE t ADD COLUMN w INT COMMENT '{'long ' * 100}'",
            "DELETE FROM t",
        )
    finally:
        setting.execute("SET GLOBAL log_bin_compress = OFF")
    setting.stream()
    assert [op for op, _, _ in setting.changes("t")] == ["c", "u", "d"]
    assert setting.changes("t")[2][1] == {"id": 1, "v": "b" * 5000, "w": None}


def test_a_log_without_checksums_is_read(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    setting.snapshot()
    try:
        setting.execute("INSERT INTO t VALUES (1)", "SET GLOBAL binlog_checksum = NONE")
        setting.execute("INSERT INTO t VALUES (2)")
        setting.stream()
    finally:
        setting.execute("SET GLOBAL binlog_checksum = CRC32")
    setting.execute("INSERT INTO t VALUES (3)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (4)")
    setting.stream()
    assert [row["id"] for _, row in ops(setting, "t")] == [1, 2, 3, 4]


def test_a_row_larger_than_a_packet_is_put_together(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)")
    setting.snapshot()
    setting.execute("INSERT INTO t VALUES (1, REPEAT('x', 17 * 1024 * 1024))")
    setting.execute("INSERT INTO t VALUES (2, 'small')")
    setting.stream()
    (_, large), (_, small) = ops(setting, "t")
    assert len(large["v"]) == 17 * 1024 * 1024 and set(large["v"]) == {"x"}
    assert small == {"id": 2, "v": "small"}


def test_a_transaction_too_large_to_hold_is_cut_and_goes_on_after_a_restart(
    setting: Setting,
) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    config = setting.config(transactions=True)
    setting.snapshot(config)
    setting.execute("INSERT INTO t SELECT seq, REPEAT('v', 30000) FROM seq_1_to_500")
    cuts = 0
    while True:
        assert setting.position is not None
        source = setting.source(config)
        batch = next(batch for batch in source.stream(setting.position) if batch.records)
        source.close()
        setting._take(batch)
        if "within" not in batch.position:
            break
        cuts += 1
    assert cuts >= 2
    rows = [value for topic, _, value in setting.records if topic.endswith(".t")]
    assert [value["after"]["id"] for value in rows] == list(range(1, 501))
    assert [value["transaction"]["total_order"] for value in rows] == list(range(1, 501))
    told = [value for topic, _, value in setting.records if topic.endswith(".transaction")]
    assert [(value["status"], value["event_count"]) for value in told] == [
        ("BEGIN", None),
        ("END", 500),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO t VALUES (1)",
        "CREATE TABLE u SELECT 5 AS id",
        "LOAD DATA INFILE '{file}' INTO TABLE t",
    ],
)
def test_a_change_logged_as_a_statement_stops_the_capture(setting: Setting, statement: str) -> None:
    file = setting.server.folder / "rows.csv"
    file.write_text("7\n")
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    setting.snapshot()
    setting.execute("SET SESSION binlog_format = STATEMENT", statement.format(file=file))
    with pytest.raises(Gap, match=statement[:9]) as stopped:
        setting.stream()
    assert "binlog_format" in str(stopped.value.hint)


def test_statements_that_concern_others_do_not_stop_the_capture(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE other (id INT PRIMARY KEY)"
    )
    setting.snapshot(setting.config("t"))
    setting.execute(
        "SET SESSION binlog_format = STATEMENT",
        "INSERT INTO other VALUES (1)",
        "CREATE TABLE third SELECT * FROM other",
        "SET SESSION binlog_format = ROW",
        "INSERT INTO t VALUES (1)",
    )
    setting.stream(setting.config("t"))
    assert ops(setting, "t") == [("c", {"id": 1})]


def test_what_foreign_keys_change_is_not_in_the_binary_log_and_the_check_says_so(
    setting: Setting,
) -> None:
    setting.execute(
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, "
        "CONSTRAINT of_p FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
        "INSERT INTO p VALUES (1)",
        "INSERT INTO c VALUES (1, 1)",
    )
    setting.snapshot()
    setting.execute("DELETE FROM p")
    setting.stream()
    assert [op for op, _, _ in setting.changes("c")] == ["r"], (
        "if this fails, the server has learnt it"
    )
    found = setting.findings()["table c"]
    assert not found.ok and "of_p" in found.sentence and "FOREIGN KEY" in str(found.remedy)


def test_a_foreign_key_that_is_made_while_it_runs_is_told_once(setting: Setting) -> None:
    setting.execute("CREATE TABLE p (id INT PRIMARY KEY)", "CREATE TABLE c (id INT, p INT)")
    setting.snapshot()
    source, said = setting.source(), []
    assert setting.position is not None
    for batch in source.stream(setting.position):
        said.append(source.guard())
        if len(said) == 1:
            setting.execute(
                "ALTER TABLE c ADD CONSTRAINT of_p FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE"
            )
        if any(topic.endswith("schema-changes") for topic, *_ in batch.records):
            break
    said.append(source.guard())
    told = [sentence for sentence in said if sentence]
    assert len(told) == 1 and "of_p" in told[0]


def _xa(setting: Setting, xid: str, row: int, *, large: bool = False) -> None:
    rows = (
        f"SELECT seq, REPEAT('v', 50000) FROM seq_{row}_to_{row + 150}"
        if large
        else f"VALUES ({row}, 'x')"
    )
    setting.execute(
        f"XA START '{xid}'", f"INSERT INTO t {rows}", f"XA END '{xid}'", f"XA PREPARE '{xid}'"
    )


def test_xa_transactions_come_when_they_are_committed_whatever_restarts(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))")
    setting.snapshot()
    _xa(setting, "a", 1)
    setting.execute("INSERT INTO t VALUES (2, 'between')")
    _xa(setting, "b''c", 3)
    _xa(setting, "d", 4)
    setting.stream()
    assert [row["id"] for _, row in ops(setting, "t")] == [2]
    assert setting.position is not None and "from" in setting.position
    setting.execute("INSERT INTO t VALUES (5, 'later')", "XA COMMIT 'd'")
    setting.stream()
    setting.execute("XA ROLLBACK 'a'", "INSERT INTO t VALUES (6, 'last')")
    setting.stream()
    setting.execute("XA COMMIT 'b''c'")
    setting.stream()
    assert [row["id"] for _, row in ops(setting, "t")] == [2, 5, 4, 6, 3]
    assert "from" not in setting.position
    assert setting.fold("t") == setting.as_snapshot("t")


def test_a_large_xa_transaction_is_held_too_and_one_phase_is_ordinary(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    setting.snapshot()
    _xa(setting, "large", 1, large=True)
    setting.stream()
    assert setting.changes("t") == []
    setting.execute("XA COMMIT 'large'")
    setting.execute(
        "XA START 'o'", "DELETE FROM t WHERE id = 1", "XA END 'o'", "XA COMMIT 'o' ONE PHASE"
    )
    setting.stream()
    assert setting.fold("t") == setting.as_snapshot("t") and len(setting.fold("t")) == 150


def test_an_xa_transaction_that_waits_while_a_snapshot_begins_is_refused(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(200))")
    _xa(setting, "early", 1)
    with pytest.raises(SourceRefused, match="XA"):
        setting.snapshot()
    setting.execute("XA ROLLBACK 'early'")
    setting.snapshot()
