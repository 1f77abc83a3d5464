"""Each table has a topic of its own, and no row keeps all others from being captured."""

from __future__ import annotations

import pytest

from headwater.capture.errors import Misconfigured
from headwater.capture.runner import Runner
from tests.capture.core.reading import read
from tests.capture.postgres.running import Setting, eventually, key


def test_two_tables_do_not_share_a_topic(setting: Setting):
    setting.execute(
        'CREATE TABLE "a b" (id int PRIMARY KEY, v text)',
        "CREATE TABLE a_b (id int PRIMARY KEY, v text)",
        "INSERT INTO \"a b\" VALUES (1, 'first')",
        "INSERT INTO a_b VALUES (1, 'second')",
    )
    with pytest.raises(Misconfigured, match="would share the topic"):
        Runner(setting.config("a b", "a_b"), lambda _sentence: None).run()


def test_a_table_may_have_the_topic_of_one_that_was_dropped(setting: Setting):
    setting.execute(
        'CREATE TABLE "a b" (id int PRIMARY KEY)',
        'INSERT INTO "a b" VALUES (1)',
        "CREATE PUBLICATION everything FOR ALL TABLES",
    )
    with setting.running(setting.config(options={"publication": "everything"})) as runner:
        setting.caught_up(runner)
        setting.execute('DROP TABLE "a b"', "CREATE TABLE a_b (id int PRIMARY KEY)")
        setting.execute("INSERT INTO a_b VALUES (2)")
        eventually("the new table's row", lambda: key(id=2) in setting.fold("a_b"), 20)


def test_an_event_for_a_partition_that_is_not_there_stops_no_other(setting: Setting):
    setting.execute(
        "CREATE TABLE orders (id int PRIMARY KEY)",
        "CREATE TABLE outbox (id int PRIMARY KEY, aggregatetype text, aggregateid text, type text, "
        "payload text, partition int)",
    )
    with setting.running(setting.config("orders", outbox="outbox")):
        setting.execute("INSERT INTO outbox VALUES (1, 'order', '1', 'made', '{}', 99)")
        setting.execute("INSERT INTO orders VALUES (1)")
        eventually("the order", lambda: setting.read("orders"), 20)
        assert key(id=1) in setting.fold("orders")
    (letter,) = read(setting.bootstrap, f"{setting.name}.outbox.dead-letters")
    assert "has no partition 99" in dict(letter.headers)["__dlq.errors.message"].decode()


def test_an_event_is_written_once_whatever_partition_it_names(setting: Setting):
    setting.execute(
        "CREATE TABLE outbox (id int PRIMARY KEY, aggregatetype text, aggregateid text, type text, "
        "payload text, partition int)",
    )
    topic = f"outbox.event.once-{setting.name}"
    with setting.running(setting.config(outbox="outbox")) as runner:
        setting.execute(
            f"INSERT INTO outbox VALUES (1, 'once-{setting.name}', '1', 'made', '{{}}', -2)"
        )
        setting.caught_up(runner)
    assert len(read(setting.bootstrap, topic)) <= 1


def test_large_rows_are_captured_and_larger_ones_set_aside(setting: Setting):
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY, text text)",
        "INSERT INTO t VALUES (1, repeat('x', 2000000)), (2, repeat('x', 5000000))",
    )
    said: list[str] = []
    with setting.running(setting.config(record_bytes_max=4 << 20), say=said.append) as runner:
        setting.execute("INSERT INTO t VALUES (3, repeat('y', 3000000)), (4, repeat('y', 6000000))")
        setting.execute("INSERT INTO t VALUES (5, 'z')")
        setting.caught_up(runner)
    assert {row["id"]: len(row["text"]) for row in setting.fold("t").values()} == {
        1: 2_000_000,
        3: 3_000_000,
        5: 1,
    }
    letters = read(setting.bootstrap, f"{setting.name}.dead-letters")
    letters.sort(key=lambda letter: letter.key["id"])  # of several partitions
    assert [letter.key for letter in letters] == [{"id": 2}, {"id": 4}]
    assert len([sentence for sentence in said if "was set aside" in sentence]) == 2
