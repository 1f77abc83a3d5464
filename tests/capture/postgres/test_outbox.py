"""Rows of the outbox are events for the topics that they name, sent if and only if they commit."""

from __future__ import annotations

from tests.capture.core.reading import read
from tests.capture.postgres.running import Setting


def test_rows_of_the_outbox_become_events_with_key_headers_and_type(setting: Setting) -> None:
    kind = f"Order{setting.name}"
    setting.execute(
        "CREATE TABLE t (id int PRIMARY KEY)",
        "CREATE TABLE outbox (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text, "
        "aggregateid text, type text, payload jsonb, headers jsonb)",
    )
    insert = (
        "INSERT INTO outbox (aggregatetype, aggregateid, type, payload, headers) "
        f"VALUES ('{kind}', %s, 'Placed', %s, %s)"
    )
    with setting.connect() as connection:
        connection.execute(insert, ["0", '{"n": 0}', None])
    with setting.running(setting.config("t", outbox="outbox", partitions=1)) as runner:
        with setting.connect() as connection:
            connection.execute(insert, ["1", '{"n": 1}', '{"trace": "abc"}'])
            connection.execute("DELETE FROM outbox")
            connection.commit()
            connection.execute(insert, ["2", '{"n": 2}', None])
            connection.rollback()
        setting.execute(
            "INSERT INTO outbox VALUES (gen_random_uuid(), 'no topic!', '3', 'x', '{}')",
            "UPDATE outbox SET type = 'other'",
        )
        setting.caught_up(runner)
    events = read(setting.bootstrap, f"outbox.event.{kind}")
    assert [(event.key, event.value) for event in events] == [(0, {"n": 0}), (1, {"n": 1})]
    headers = dict(events[1].headers)
    assert headers["eventType"] == b"Placed" and headers["trace"] == b"abc"
    assert len(headers["id"]) == 36
    assert len(read(setting.bootstrap, f"{setting.name}.outbox.dead-letters")) == 2


def test_logical_messages_of_the_chosen_prefix_are_events_too(setting: Setting) -> None:
    kind = f"Order{setting.name}"
    setting.execute("CREATE TABLE t (id int PRIMARY KEY)")
    event = (
        f'{{"id": "e1", "aggregatetype": "{kind}", "aggregateid": "7", "type": "Placed", '
        '"payload": {"n": 1}, "headers": {"trace": "abc"}}'
    )
    emit = "SELECT pg_logical_emit_message(true, 'events', %s)"
    config = setting.config("t", partitions=1, options={"outbox_prefix": "events"})
    with setting.running(config) as runner:
        with setting.connect() as connection:
            connection.execute(emit, [event])
            connection.commit()
            connection.execute(emit, [event])
            connection.rollback()
            for content in ("no JSON", "[1]", '{"aggregateid": "1", "strange": 2}'):
                connection.execute(emit, [content])
            connection.execute("SELECT pg_logical_emit_message(true, 'other', 'x')")
        setting.caught_up(runner)
    [found] = read(setting.bootstrap, f"outbox.event.{kind}")
    assert (found.key, found.value) == (7, {"n": 1})
    assert dict(found.headers) == {"id": b"e1", "eventType": b"Placed", "trace": b"abc"}
    assert len(read(setting.bootstrap, f"{setting.name}.outbox.dead-letters")) == 3
    prefixes = {record.value["message"]["prefix"] for record in setting.read("message")}
    assert "events" not in prefixes and "other" in prefixes
