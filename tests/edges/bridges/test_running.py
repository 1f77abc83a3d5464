"""What the edges do round any bridge: store before acknowledging, commit after confirming, lose nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headwater.client import groups
from headwater.client.log import Log
from headwater.client.publisher import Draft, publish
from headwater.edges.bridges.contract import Message
from headwater.project.ports import free_port
from headwater.record.dead_letter import HEADER
from headwater.testing import broker
from tests.edges.bridges.reading import records, values, wait_for
from tests.edges.bridges.toy import CISTERNS, Cistern
from tests.edges.running import Running, edges, until

HERE = "tests.edges.bridges.toy"


@pytest.fixture
def cistern(name: str) -> Iterator[Cistern]:
    CISTERNS[name] = Cistern()
    yield CISTERNS[name]
    del CISTERNS[name]


def tap(name: str, topic: str, **more: Any) -> dict[str, Any]:
    section = {"from": f"{HERE}:Tap", "to": f"topic:{topic}", "cistern": name, **more}
    return {"bridges": {name: section}}


def drain(name: str, topic: str, **more: Any) -> dict[str, Any]:
    section = {"from": f"topic:{topic}", "to": f"{HERE}:Drain", "cistern": name, **more}
    return {"bridges": {name: section}}


def state(running: Running, name: str) -> dict[str, Any]:
    services = httpx.get(f"{running.url}/status").json()["services"]
    return services[f"bridges.{name}"]


def test_messages_become_records_before_they_are_acknowledged(
    log: Log, topic: Callable[..., str], name: str, cistern: Cistern
):
    orders = topic()
    whole = Message(b"v", b"k", (("h", b"1"), ("none", None)), timestamp_ms=1_700_000_000_000)
    cistern.pour(whole, Message(None, b"gone"), Message(b"", None))
    with edges(log.bootstrap, tap(name, orders)) as running:
        until(lambda: len(cistern.acknowledged) == 3, "the acknowledgement")
        found = records(log, orders)
        shown = state(running, name)
    assert [(each.key, each.value) for each in found] == [
        (b"k", b"v"),
        (b"gone", None),
        (None, b""),
    ]
    assert found[0].headers == {"h": b"1", "none": None}
    assert found[0].timestamp_ms == 1_700_000_000_000
    assert shown["state"] == "running" and shown["records"] == 3 and shown["opened"] == 1
    assert shown["loses"] == "nothing while the process lives"


def test_what_cannot_be_stored_goes_to_the_dead_letters_and_its_neighbours_do_not(
    log: Log, topic: Callable[..., str], name: str, cistern: Cistern
):
    orders = topic(max_message_bytes=300_000)
    cistern.pour(
        Message(b"first"),
        Message(b"line noise", b"k", (("h", b"1"),), refused="it is no metric"),
        Message(b"too large" + os.urandom(2_000_000)),
        Message(b"large" + os.urandom(400_000)),
        Message(b"of tomorrow", timestamp_ms=4_000_000_000_000),
        Message(b"gap", beside=".gaps"),
        Message(b"last"),
    )
    with edges(log.bootstrap, tap(name, orders)) as running:
        until(lambda: len(cistern.acknowledged) == 7, "the acknowledgement")
        shown = state(running, name)
    assert values(log, orders) == [b"first", b"last"]
    dead = records(log, f"{orders}.dead-letters")
    told = {each.value[:5]: each for each in dead if each.value is not None}
    assert set(told) == {b"line ", b"too l", b"large", b"of to"} and len(dead) == 4
    assert values(log, f"{orders}.gaps") == [b"gap"]
    noise = told[b"line "]
    assert noise.key == b"k" and noise.headers["h"] == b"1"
    assert noise.headers[HEADER + "message"] == b"it is no metric"
    assert noise.headers[HEADER + "topic"] == orders.encode()
    assert noise.headers[HEADER + "group"] == f"headwater.bridge.{name}".encode()
    assert told[b"too l"].headers[HEADER + "cut"] == b"2000009"
    assert b"INVALID_TIMESTAMP" in (told[b"of to"].headers[HEADER + "message"] or b"")
    assert shown["dead_letters"] == 4 and shown["records"] == 3


def test_a_compacted_topic_takes_what_has_a_key(
    log: Log, topic: Callable[..., str], name: str, cistern: Cistern
):
    latest = topic(cleanup_policy="compact")
    cistern.pour(*(Message(b"%d" % n, b"k" if n % 2 else None) for n in range(20)))
    with edges(log.bootstrap, tap(name, latest)):
        until(lambda: len(cistern.acknowledged) == 20, "the acknowledgement")
    assert values(log, latest) == [b"%d" % n for n in range(1, 20, 2)]
    assert values(log, f"{latest}.dead-letters") == [b"%d" % n for n in range(0, 20, 2)]


def test_a_value_that_is_not_as_the_schema_has_it_goes_to_the_dead_letters(
    log: Log, topic: Callable[..., str], name: str, cistern: Cistern, tmp_path: Path
):
    orders = topic()
    (tmp_path / "order.json").write_text(json.dumps({"type": "object", "required": ["id"]}))
    cistern.pour(Message(b'{"id": 1}'), Message(b'{"no": 2}'), Message(b"no JSON"))
    schema = {"topics": {orders: {"schema": str(tmp_path / "order.json")}}}
    with edges(log.bootstrap, {**tap(name, orders), **schema}):
        until(lambda: len(cistern.acknowledged) == 3, "the acknowledgement")
    assert values(log, orders) == [b'{"id": 1}']
    dead = records(log, f"{orders}.dead-letters")
    assert [each.value for each in dead] == [b'{"no": 2}', b"no JSON"]
    assert b"id" in (dead[0].headers[HEADER + "message"] or b"")


def test_what_the_source_sends_again_is_stored_once_by_its_id(
    log: Log, topic: Callable[..., str], name: str, cistern: Cistern
):
    orders = topic(partitions=2)
    twice = [Message(b"v%d" % n, b"k%d" % n, id=f"id{n}") for n in range(20)]
    cistern.pour(*twice)
    with edges(log.bootstrap, tap(name, orders, once="message-id")):
        until(lambda: len(cistern.acknowledged) == 20, "the acknowledgement")
    cistern.pour(*twice, Message(b"without an id"))
    with edges(log.bootstrap, tap(name, orders, once="message-id")) as running:
        until(lambda: len(cistern.acknowledged) == 41, "the acknowledgement")
        assert state(running, name)["repeated"] == 20
    expected = [b"without an id", *(message.value or b"" for message in twice)]
    assert sorted(each or b"" for each in values(log, orders)) == sorted(expected)


def test_a_topic_that_is_missing_is_told_and_waited_for(log: Log, name: str, cistern: Cistern):
    missing = f"{name}-comes-later"
    with edges(log.bootstrap, drain(name, missing)) as running:
        shown = until(lambda: state(running, name).get("last_failure"), "the failure")
        assert f"there is no topic {missing!r}" in shown
        publish_topic(log, missing)
        publish(log, missing, Draft(b"k", b"v"))
        until(lambda: cistern.got, "the record")


def test_a_log_that_goes_away_and_comes_back_has_everything(
    name: str, cistern: Cistern, tmp_path: Path
):
    listen = f"127.0.0.1:{free_port()}"
    settings: dict[str, object] = {"num.partitions": 1}
    with broker(tmp_path, settings, listen=listen) as running:
        with Log(running.bootstrap) as log:
            publish_topic(log, "orders")
        application = edges(running.bootstrap, tap(name, "orders", batch=7))
        application.__enter__()
        cistern.pour(*(Message(b"%d" % n) for n in range(50)))
        until(lambda: len(cistern.acknowledged) >= 7, "the first batches")
    try:
        cistern.pour(*(Message(b"%d" % n) for n in range(50, 100)))
        with broker(tmp_path, settings, listen=listen) as running, Log(running.bootstrap) as log:
            until(lambda: len(cistern.acknowledged) == 100, "the acknowledgement")
            found = values(log, "orders")
            assert list(dict.fromkeys(found)) == [b"%d" % n for n in range(100)]
            assert cistern.opened == 1, "the bridge was held open"
            application.__exit__(None, None, None)
            application = None
    finally:
        if application is not None:
            application.__exit__(None, None, None)


def publish_topic(log: Log, topic: str) -> None:
    from confluent_kafka.admin import NewTopic

    log.admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()


def test_records_go_out_in_order_and_the_position_follows(
    log: Log, topic: Callable[..., str], name: str, cistern: Cistern
):
    orders = topic()
    for number in range(20):
        publish(log, orders, Draft(b"k", b"%d" % number, [("h", b"1")]))
    with edges(log.bootstrap, drain(name, orders)) as running:
        until(lambda: len(cistern.got) == 20, "the records")
        until(lambda: state(running, name)["records"] == 20, "the commit")
        assert state(running, name)["loses"] == "nothing while the process lives"
    assert [record.value for record in cistern.got] == [b"%d" % number for number in range(20)]
    first = cistern.got[0]
    assert (first.topic, first.partition, first.offset, first.key) == (orders, 0, 0, b"k")
    assert list(first.headers) == [("h", b"1")] and first.id == f"{orders}-0-0"
    assert groups.named(log, f"headwater.bridge.{name}").lag == 0
    publish(log, orders, Draft(b"k", b"20"))
    with edges(log.bootstrap, drain(name, orders)):
        until(lambda: len(cistern.got) > 20, "the next record")
    assert [record.value for record in cistern.got[20:]] == [b"20"]


def test_what_failed_is_sent_again_in_order_and_nothing_is_skipped(
    log: Log, topic: Callable[..., str], name: str, cistern: Cistern
):
    orders = topic()
    for number in range(10):
        publish(log, orders, Draft(b"k", b"%d" % number))
    cistern.fails = 2
    with edges(log.bootstrap, drain(name, orders)) as running:
        until(lambda: any(record.value == b"9" for record in cistern.got), "the last record")
        assert "the pipe has burst" in state(running, name)["last_failure"]
    last = max(n for n, record in enumerate(cistern.got) if record.value == b"0")
    assert [record.value for record in cistern.got[last:]] == [b"%d" % n for n in range(10)]


def test_a_record_that_is_refused_goes_to_the_dead_letters_and_the_next_ones_go_on(
    log: Log, topic: Callable[..., str], name: str, cistern: Cistern
):
    orders = topic()
    for value in (b"good", b"bad", b"also good"):
        publish(log, orders, Draft(b"k", value, [("h", b"1")]))
    with edges(log.bootstrap, drain(name, orders)):
        until(lambda: len(cistern.got) == 2, "the good records")
        (dead,) = wait_for(log, f"headwater.bridge.{name}.dead-letters", 1)
    assert dead.value == b"bad" and dead.headers["h"] == b"1"
    assert dead.headers[HEADER + "message"] == b"it is bad"
    assert dead.headers[HEADER + "offset"] == b"1"
    assert [record.value for record in cistern.got] == [b"good", b"also good"]


def test_a_bridge_may_begin_at_the_end(
    log: Log, topic: Callable[..., str], name: str, cistern: Cistern
):
    orders = topic()
    publish(log, orders, Draft(b"k", b"old"))
    with edges(log.bootstrap, drain(name, orders, start="end")):
        number = 0
        while not cistern.got:  # it begins where the topic ends when it has joined its group
            publish(log, orders, Draft(b"k", b"new %d" % number))
            number += 1
    assert all((record.value or b"").startswith(b"new") for record in cistern.got)
