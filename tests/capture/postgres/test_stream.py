"""Every kind of change, from a real server through the log."""

from __future__ import annotations

from tests.capture.postgres.running import Setting, key


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
    ops = [record.value["op"] for record in records if record.value is not None]
    assert ops.count("r") == 250 and ops.count("c") == 1
    assert ops.count("u") == 1 and ops.count("d") == 1
    table = setting.fold("customers")
    assert len(table) == 250
    assert table[key(id=1)] == {"id": 1, "name": "Grace"}
    assert table[key(id=1000)] == {"id": 1000, "name": "Ada"}
    assert key(id=2) not in table
