"""Every kind of change, from a real server through the log."""

from __future__ import annotations

import base64
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from headwater.capture.postgres.connection import identifier
from headwater.capture.runner import Runner
from tests.capture.core.reading import Read
from tests.capture.postgres.running import Setting, eventually, key

LONG = "x" * 10_000


def changes(records: list[Read]) -> list[tuple[str, Any, Any]]:
    return [(r.value["op"], r.value["before"], r.value["after"]) for r in records if r.value]


def test_snapshot_then_changes_make_the_table(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL)",
        "INSERT INTO customers SELECT n, 'c' || n FROM generate_series(1, 250) n",
    )
    config = setting.config("customers", options={"chunk_rows": 40})
    with setting.running(config) as runner:
        setting.execute(
            "INSERT INTO customers VALUES (1000, 'Ada')",
            "UPDATE customers SET name = 'Grace' WHERE id = 1",
            "DELETE FROM customers WHERE id = 2",
        )
        setting.caught_up(runner)
    records = setting.read("customers")
    ops = Counter(record.value["op"] for record in records if record.value is not None)
    assert ops == {"r": 250, "c": 1, "u": 1, "d": 1}
    table = setting.fold("customers")
    assert len(table) == 250
    assert table[key(id=1)] == {"id": 1, "name": "Grace"}
    assert table[key(id=1000)] == {"id": 1000, "name": "Ada"}
    assert key(id=2) not in table
    source = records[0].value["source"]
    assert source["db"] == source["name"] == setting.name
    assert (source["schema"], source["table"], source["snapshot"]) == (
        "public",
        "customers",
        "true",
    )


def test_a_new_key_is_a_delete_a_tombstone_and_a_create(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    with setting.running(setting.config("t")) as runner:
        setting.execute("INSERT INTO t VALUES (1, 'a')", "UPDATE t SET id = 2, v = 'b'")
        setting.caught_up(runner)
    records = setting.read("t")
    assert [r.value["op"] for r in records if r.key == {"id": 1} and r.value] == ["c", "d"]
    moved = [r for r in records if r.key == {"id": 1}][1:]
    assert moved[0].value["before"] == {"id": 1, "v": None} and moved[1].value is None
    assert moved[0].headers == [("__debezium.newkey", b'{"id":2}')]
    created = [r for r in records if r.key == {"id": 2}]
    assert changes(created) == [("c", None, {"id": 2, "v": "b"})]
    assert created[0].headers == [("__debezium.oldkey", b'{"id":1}')]
    counts = [r.value for r in setting.read("transaction") if r.value["status"] == "END"]
    assert [c["event_count"] for c in counts] == [1, 2], "a move is two events"


def test_an_unchanged_toast_column_is_marked_and_never_null(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY, small int, big text)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
    )
    with setting.running(setting.config("t")) as runner:
        setting.execute(f"INSERT INTO t VALUES (1, 1, '{LONG}')", "UPDATE t SET small = 2")
        setting.execute("UPDATE t SET big = NULL")
        setting.caught_up(runner)
    afters = [after for _, _, after in changes(setting.read("t"))]
    assert afters == [
        {"id": 1, "small": 1, "big": LONG},
        {"id": 1, "small": 2, "big": "__debezium_unavailable_value"},
        {"id": 1, "small": 2, "big": None},
    ]


def test_full_identity_gives_old_rows_and_fills_unchanged_toast_from_them(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY, small int, big text)",
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
        "ALTER TABLE t REPLICA IDENTITY FULL",
    )
    with setting.running(setting.config("t")) as runner:
        setting.execute(
            f"INSERT INTO t VALUES (1, 1, '{LONG}')", "UPDATE t SET small = 2", "DELETE FROM t"
        )
        setting.caught_up(runner)
    one, two = {"id": 1, "small": 1, "big": LONG}, {"id": 1, "small": 2, "big": LONG}
    records = setting.read("t")
    assert changes(records) == [("c", None, one), ("u", one, two), ("d", two, None)]
    assert {r.key["id"] for r in records} == {1}, "the key is the primary key, not the whole row"


def test_an_index_as_identity_is_the_key(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (code text NOT NULL, v int)",
        "INSERT INTO t VALUES ('s', 0)",
        "CREATE UNIQUE INDEX by_code ON t (code)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX by_code",
    )
    with setting.running(setting.config("t")) as runner:
        setting.execute(
            "INSERT INTO t VALUES ('a', 1)",
            "UPDATE t SET v = 2 WHERE code = 'a'",
            "UPDATE t SET code = 'b' WHERE code = 'a'",
            "DELETE FROM t WHERE code = 's'",
        )
        setting.caught_up(runner)
    assert setting.fold("t") == {key(code="b"): {"code": "b", "v": 2}}


def test_a_table_without_key_under_full_identity_has_records_without_key(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (v int)", "ALTER TABLE t REPLICA IDENTITY FULL", "INSERT INTO t VALUES (1)"
    )
    with setting.running(setting.config("t")) as runner:
        setting.execute("INSERT INTO t VALUES (2)", "DELETE FROM t WHERE v = 1")
        setting.caught_up(runner)
    records = setting.read("t")
    assert all(record.key is None and record.value is not None for record in records)
    found = sorted((op, str(before), str(after)) for op, before, after in changes(records))
    assert found == [
        ("c", "None", "{'v': 2}"),
        ("d", "{'v': 1}", "None"),
        ("r", "None", "{'v': 1}"),
    ]


def test_a_truncate_is_told_in_every_partition(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE TABLE b (id int PRIMARY KEY)",
        "INSERT INTO a SELECT generate_series(1, 20)",
    )
    with setting.running(setting.config("a", "b")) as runner:
        setting.execute("TRUNCATE a, b", "INSERT INTO a VALUES (7)")
        setting.caught_up(runner)
    assert setting.fold("a") == {key(id=7): {"id": 7}}
    told = [r.partition for r in setting.read("b")]
    assert sorted(told) == [0, 1, 2]


@pytest.mark.parametrize("streaming", [True, False])
def test_of_a_large_transaction_only_what_was_not_rolled_back_arrives_in_order(
    setting: Setting, streaming: bool
) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY, v text)")
    config = setting.config("t", partitions=1, options={"streaming": streaming})
    with setting.running(config) as runner:
        with setting.connect() as connection:
            insert = (
                "INSERT INTO t SELECT n, repeat('y', 100) FROM generate_series(%s::int, %s::int) n"
            )
            connection.execute(insert, [1, 3000])
            connection.execute("SAVEPOINT one")
            connection.execute(insert, [3001, 6000])
            connection.execute("SAVEPOINT two")
            connection.execute(insert, [6001, 9000])
            connection.execute("ROLLBACK TO one")
            connection.execute("SAVEPOINT three")
            connection.execute(insert, [9001, 12000])
            connection.execute("RELEASE three")
            connection.commit()
            connection.execute(insert, [20001, 23000])
            connection.rollback()
        setting.caught_up(runner)
    ids = [record.value["after"]["id"] for record in setting.read("t")]
    assert ids == [*range(1, 3001), *range(9001, 12001)]
    orders = [record.value["transaction"]["total_order"] for record in setting.read("t")]
    assert orders == list(range(1, 6001))
    if streaming:
        with setting.connect() as connection:
            row = connection.execute(
                "SELECT stream_txns FROM pg_stat_replication_slots WHERE slot_name LIKE %s",
                [f"%{setting.name}"],
            ).fetchone()
        assert row is not None and row[0] > 0, "the server did stream it"


def test_begin_and_end_frame_a_transaction_with_counts_per_table(setting: Setting) -> None:
    setting.execute("CREATE TABLE a (id int PRIMARY KEY)", "CREATE TABLE b (id int PRIMARY KEY)")
    with setting.running(setting.config("a", "b")) as runner:
        with setting.connect() as connection:
            connection.execute("INSERT INTO a VALUES (1), (2)")
            connection.execute("INSERT INTO b VALUES (3)")
        setting.caught_up(runner)
    begin, end = (record.value for record in setting.read("transaction"))
    assert (begin["status"], end["status"], end["event_count"]) == ("BEGIN", "END", 3)
    assert end["data_collections"] == [
        {"data_collection": "public.a", "event_count": 2},
        {"data_collection": "public.b", "event_count": 1},
    ]
    b = setting.read("b")[0].value["transaction"]
    assert b == {"id": begin["id"], "total_order": 3, "data_collection_order": 1}


def test_rows_are_decoded_with_the_schema_of_their_moment(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY, a int)")
    config = setting.config("t", partitions=1)
    with setting.running(config) as runner:
        setting.caught_up(runner)
    # While nobody looks: old rows must not be read with the new columns.
    setting.execute(
        "INSERT INTO t VALUES (1, 1)",
        "ALTER TABLE t ADD b text DEFAULT 'new'",
        "INSERT INTO t VALUES (2, 2, 'two')",
        "ALTER TABLE t DROP a",
        "ALTER TABLE t ALTER b DROP DEFAULT, ALTER b TYPE int USING 5",
        "INSERT INTO t VALUES (3, 3)",
    )
    with setting.running(config) as runner:
        setting.caught_up(runner)
    with setting.running(config):
        pass
    assert [after for _, _, after in changes(setting.read("t"))] == [
        {"id": 1, "a": 1},
        {"id": 2, "a": 2, "b": "two"},
        {"id": 3, "b": 3},
    ]
    told = [record.value for record in setting.read("schema-changes")]
    assert [t["change"] for t in told] == ["CREATE", "ALTER", "ALTER"]
    assert [t["changes"] for t in told] == [
        None,
        {"added": ["b"], "dropped": [], "retyped": [], "policy": {"b": "flows"}},
        {
            "added": [],
            "dropped": ["a"],
            "retyped": ["b"],
            "policy": {"a": "null", "b": "rebuild"},
        },
    ]


@pytest.mark.parametrize("name", ["mine", """My "own", of 'all'"""])
def test_column_lists_and_row_filters_of_a_publication_hold_for_snapshot_and_stream(
    setting: Setting, name: str
) -> None:
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY, shown int, secret text)",
        "INSERT INTO t VALUES (1, 1, 's'), (-1, 1, 's')",
        f"CREATE PUBLICATION {identifier(name)} FOR TABLE t (id, shown) WHERE (id > 0)",
    )
    with setting.running(setting.config(options={"publication": name})) as runner:
        setting.execute("INSERT INTO t VALUES (2, 2, 's'), (-2, 2, 's')")
        setting.caught_up(runner)
    assert sorted(setting.fold("t").values(), key=str) == [
        {"id": 1, "shown": 1},
        {"id": 2, "shown": 2},
    ]


def test_a_partitioned_table_is_one_topic(setting: Setting) -> None:
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "CREATE TABLE t_high PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO t VALUES (1), (11)",
    )
    with setting.running(setting.config("t")) as runner:
        setting.execute("INSERT INTO t VALUES (2), (12)")
        setting.caught_up(runner)
    assert {row["id"] for row in setting.fold("t").values()} == {1, 2, 11, 12}


def test_a_partition_brings_its_rows_and_takes_them_away_also_while_nobody_captures(
    setting: Setting,
) -> None:
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (10)",
        "INSERT INTO t VALUES (1)",
        *(f"CREATE TABLE n{n} (id int PRIMARY KEY)" for n in (10, 20)),
        *(f"INSERT INTO n{n} VALUES ({n}), ({n + 1})" for n in (10, 20)),
    )
    config, said = setting.config("t"), list[str]()
    attach = "ALTER TABLE t ATTACH PARTITION n{0} FOR VALUES FROM ({0}) TO ({1})"

    def ids() -> list[int]:
        return sorted(row["id"] for row in setting.fold("t").values())

    with setting.running(config, guard_every_s=0.1):
        setting.execute(attach.format(10, 20), "INSERT INTO t VALUES (12)")
        eventually("the rows of a partition", lambda: ids() == [1, 10, 11, 12])
    setting.execute(attach.format(20, 30), "INSERT INTO t VALUES (2)", "DROP TABLE low")
    with setting.running(config, guard_every_s=0.1):
        eventually("those of another, and no others", lambda: ids() == [10, 11, 12, 20, 21])
        setting.execute("INSERT INTO t VALUES (22)", "ALTER TABLE t DETACH PARTITION n10")
        eventually("those that are left", lambda: ids() == [20, 21, 22])
    config = replace(config, options={"read_moved_rows": False})
    with setting.running(config, say=said.append, guard_every_s=0.1):
        setting.execute("DROP TABLE n20")
        eventually("it is told", lambda: any("has lost 1 partitions" in one for one in said))
        assert ids() == [20, 21, 22]


def test_logical_messages_are_events_and_unfinished_transactions_leave_none(
    setting: Setting,
) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY)")
    with setting.running(setting.config("t")) as runner:
        with setting.connect() as connection:
            connection.execute("SELECT pg_logical_emit_message(true, 'greeting', 'hello')")
            connection.commit()
            connection.execute("SELECT pg_logical_emit_message(true, 'greeting', 'never')")
            connection.rollback()
        setting.execute("SELECT pg_logical_emit_message(false, 'greeting', 'at once')")
        setting.caught_up(runner)
    found = [r.value for r in setting.read("message") if r.key == {"prefix": "greeting"}]
    contents = [base64.b64decode(value["message"]["content"]) for value in found]
    assert contents == [b"hello", b"at once"]
    assert found[0]["source"]["txId"] is not None and found[1]["source"]["txId"] is None


def test_with_schema_every_record_says_what_it_holds(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamp)")
    with setting.running(setting.config("t", schema=True)) as runner:
        setting.execute("INSERT INTO t VALUES (1, '2026-11-15 12:00:00.000001')")
        setting.caught_up(runner)
    record = setting.read("t")[0]
    assert record.key["payload"] == {"id": 1}
    assert record.value["payload"]["after"] == {"id": 1, "at": 1794744000000001}
    fields = record.value["schema"]["fields"]
    after = next(field for field in fields if field["field"] == "after")
    assert after["fields"] == [
        {"type": "int32", "optional": False, "field": "id"},
        {
            "type": "int64",
            "name": "io.debezium.time.MicroTimestamp",
            "version": 1,
            "optional": True,
            "field": "at",
        },
    ]


def test_a_stop_between_any_two_changes_neither_loses_nor_repeats(setting: Setting) -> None:
    setting.execute("CREATE TABLE t (id int PRIMARY KEY)")
    config = setting.config("t", partitions=1)
    for n in range(4):
        setting.execute(f"INSERT INTO t VALUES ({2 * n})")
        with setting.running(config) as runner:
            setting.execute(f"INSERT INTO t VALUES ({2 * n + 1})")
            if n % 2:
                setting.caught_up(runner)
    with setting.running(config) as runner:
        setting.caught_up(runner)
    assert isinstance(runner, Runner)
    assert [record.value["after"]["id"] for record in setting.read("t")] == list(range(8))
