"""Rows of an outbox table become the events that they are."""

from __future__ import annotations

from tests.capture.mysql.captured import Setting

TABLE = (
    "CREATE TABLE outbox (id UUID PRIMARY KEY DEFAULT UUID(), aggregatetype VARCHAR(50) NOT NULL, "
    "aggregateid VARCHAR(50), type VARCHAR(50), payload JSON)"
)


def test_outbox_rows_go_to_the_topics_they_name_and_deletes_pass(setting: Setting) -> None:
    row = "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES "
    setting.execute(
        TABLE, "CREATE TABLE t (id INT PRIMARY KEY)", row + """('order', '6', 'Old', '{"n":1}')"""
    )
    config = setting.config("t", outbox="outbox", transactions=True)
    setting.snapshot(config)
    setting.execute(
        "BEGIN",
        "INSERT INTO t VALUES (1)",
        row + """('order', '7', 'Placed', '{"n":2}'), ('bad topic', '8', 'Placed', NULL)""",
        "DELETE FROM outbox",
        "COMMIT",
        row + "('order', '9', 'Paid', NULL)",
        "UPDATE outbox SET type = 'Changed'",
        "TRUNCATE TABLE outbox",
    )
    source = setting.source(config)
    setting.stream(config)
    events = [
        (key, value) for topic, key, value in setting.records if topic == "outbox.event.order"
    ]
    assert events == [(6, {"n": 1}), (7, {"n": 2}), (9, None)]
    dead = f"{setting.name}.outbox.dead-letters"
    assert [key for topic, key, _ in setting.records if topic == dead] == [8, 9]
    assert not any(topic == f"{setting.name}.outbox" for topic, _, _ in setting.records)
    assert f"{setting.name}.outbox" not in source.topics()
    ended = [
        v for t, _, v in setting.records if t.endswith(".transaction") and v["status"] == "END"
    ]
    assert [value["event_count"] for value in ended] == [1]


def test_the_topics_that_rows_named_are_known_before_they_are_written(setting: Setting) -> None:
    setting.execute(TABLE)
    config = setting.config("outbox", outbox="outbox")
    setting.snapshot(config)
    setting.execute(
        "INSERT INTO outbox (aggregatetype, aggregateid, type) VALUES ('new', '1', 'x')"
    )
    source = setting.source(config)
    assert setting.position is not None
    batch = next(batch for batch in source.stream(setting.position) if batch.records)
    assert batch.records[0][0] == "outbox.event.new"
    assert "outbox.event.new" in source.topics()
