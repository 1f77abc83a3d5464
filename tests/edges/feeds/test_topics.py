"""Topics as changefeeds, over HTTP, as clients of SSE read them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator

import httpx
import pytest

from headwater.client.log import Log
from headwater.edges.feeds import follower as following_module
from headwater.edges.feeds import hub_of
from tests.edges.feeds.clients import following, put, wait_for
from tests.edges.running import Running, edges, until


@pytest.fixture(scope="module")
def running(log: Log) -> Iterator[Running]:
    with edges(log.bootstrap) as running:
        yield running


def test_a_client_gets_what_comes_and_only_that(log: Log, topic: Callable[..., str], running):
    name = topic(partitions=2)
    put(log, name, 1, 2, 3)
    with following(f"{running.url}/topics/{name}") as reader:
        put(log, name, {"n": 4})
        wait_for(reader, 1)
        (record,) = reader.records()
        assert record["value"] == {"n": 4}
        assert {"partition", "offset", "timestamp", "key"} <= set(record)


@pytest.mark.parametrize("partitions", [1, 3])
def test_who_comes_back_with_the_last_id_misses_nothing_and_gets_nothing_twice(
    log: Log, topic: Callable[..., str], running, partitions: int
):
    name, url, chance = topic(partitions), f"{running.url}/topics/", random.Random(11)
    sent, got, last = 0, [], None
    put(log, name, *[(str(n), n) for n in range(sent, sent + 50)])
    sent += 50
    while sent < 300 or len(got) < sent:
        headers = {"last-event-id": last} if last else {}
        start = {} if last else {"from": "beginning"}
        with following(url + name, headers, **start) as reader:
            if sent < 300:
                put(log, name, *[(str(n), n) for n in range(sent, sent + 50)])
                sent += 50
            enough = chance.randint(1, sent - len(got)) if sent < 300 else sent - len(got)
            wait_for(reader, enough)
            # What it had read when the connection broke is what counts, wherever that was.
            kept = [each for each in reader.list() if each[0] == "message"][:enough]
        got += [(data["partition"], data["offset"], int(data["value"])) for _, _, data in kept]
        last = kept[-1][1]
    assert sorted(value for _, _, value in got) == list(range(300))
    for partition in range(partitions):
        own = [offset for p, offset, _ in got if p == partition]
        assert own == sorted(own)


def test_the_last_id_may_stand_in_the_query_as_polyfills_have_it(
    log: Log, topic: Callable[..., str], running
):
    name = topic()
    put(log, name, *[(str(n), n) for n in range(5)])
    words = {"after": "0=1", "lastEventId": "0=3"}
    with following(f"{running.url}/topics/{name}", **words) as reader:
        wait_for(reader, 2)
        assert [int(each) for each in reader.values()] == [3, 4]


def test_a_snapshot_comes_first_and_then_the_changes(log: Log, topic: Callable[..., str], running):
    name = topic(cleanup_policy="compact")
    put(log, name, ("a", 1), ("b", 2), ("a", 3), ("c", 4), ("b", None))
    with following(f"{running.url}/topics/{name}") as reader:
        until(lambda: reader.named("live"), "the end of the snapshot")
        assert [(event, id) for event, id, _ in reader.list()] == [
            ("snapshot", ""),
            ("message", ""),
            ("message", ""),
            ("live", "0=5"),
        ]
        assert [(r["key"], r["value"]) for r in reader.records()] == [("a", 3), ("c", 4)]
        put(log, name, ("c", None), ("d", 5))
        wait_for(reader, 4)
        assert [(r["key"], r["value"]) for r in reader.records()[2:]] == [("c", None), ("d", 5)]
        last = reader.last_id
    put(log, name, ("e", 6))
    with following(f"{running.url}/topics/{name}", {"last-event-id": last}) as again:
        wait_for(again, 1)
        assert [r["key"] for r in again.records()] == ["e"]
        assert not again.named("snapshot")
    with following(f"{running.url}/topics/{name}", snapshot="false") as plain:
        put(log, name, ("f", 7))
        wait_for(plain, 1)
        assert [r["key"] for r in plain.records()] == ["f"]


def test_who_was_away_for_too_long_to_hear_of_deletions_gets_the_state_anew(
    log: Log, topic: Callable[..., str], running
):
    """Compaction forgets a tombstone after delete.retention.ms; here, at once."""
    name = topic(cleanup_policy="compact", delete_retention_ms=0)
    put(log, name, ("a", 1), ("b", 2), ("a", None))
    with following(f"{running.url}/topics/{name}", after="0=1") as reader:
        until(lambda: reader.named("live") == [{"records": 1}], "the snapshot")
        assert reader.list()[0][0] == "snapshot"
    with following(f"{running.url}/topics/{name}", after="0=3") as reader:
        put(log, name, ("c", 4))
        wait_for(reader, 1)
        assert not reader.named("snapshot")


def test_a_snapshot_of_any_topic_with_keys_can_be_asked_for(log: Log, topic, running):
    name = topic(partitions=3)
    put(log, name, *[(str(n % 7), n) for n in range(70)])
    with following(f"{running.url}/topics/{name}", snapshot="true") as reader:
        until(lambda: reader.named("live") == [{"records": 7}], "the snapshot")
        assert sorted(int(value) for value in reader.values()) == list(range(63, 70))
    bare = topic()
    put(log, bare, 1)
    answer = ask(running, bare, snapshot="true")
    assert answer.status_code == 400 and "without a key" in answer.json()["detail"]


def test_a_filter_keeps_what_fits(log: Log, topic: Callable[..., str], running):
    name = topic()
    rows = [("17", {"city": "Paris", "n": 1}), ("18", {"city": "Rome", "n": 2})]
    put(log, name, *rows, *rows)
    with following(f"{running.url}/topics/{name}", **{"from": "beginning", "key": "17"}) as reader:
        put(log, name, *rows)
        wait_for(reader, 3)
        assert {r["key"] for r in reader.records()} == {"17"}
    words = {"from": "beginning", "where": ["city=Rome", "n!=1"]}
    with following(f"{running.url}/topics/{name}", **words) as reader:
        wait_for(reader, 3)
        assert {r["key"] for r in reader.records()} == {"18"}


def test_a_row_that_leaves_the_filter_of_a_snapshot_is_told_as_gone(log: Log, topic, running):
    name = topic(cleanup_policy="compact")
    put(log, name, ("a", {"city": "Paris"}), ("b", {"city": "Rome"}))
    with following(f"{running.url}/topics/{name}", where="city=Paris") as reader:
        until(lambda: reader.named("live"), "the snapshot")
        put(log, name, ("b", {"city": "Oslo"}), ("a", {"city": "Rome"}), ("b", {"city": "Paris"}))
        wait_for(reader, 3)
        assert [(r["key"], r["value"]) for r in reader.records()] == [
            ("a", {"city": "Paris"}),
            ("a", None),
            ("b", {"city": "Paris"}),
        ]


def test_a_place_to_begin_is_an_offset_a_time_or_an_end(log: Log, topic, running):
    name = topic()
    put(log, name, *range(10))
    for start, first in (("7", 7), ("0:9", 9), ("beginning", 0), ("2020-01-01T00:00", 0)):
        with following(f"{running.url}/topics/{name}", **{"from": start}) as reader:
            wait_for(reader, 10 - first)
            assert [int(value) for value in reader.values()] == list(range(first, 10))


def test_records_of_an_aborted_transaction_are_never_seen_and_ids_go_past_its_marker(
    log: Log, topic, running
):
    name = topic()
    producer = log.new_producer(transactional_id=f"{name}-writer")
    producer.init_transactions()
    with following(f"{running.url}/topics/{name}") as reader:
        for value, ends in ((b"1", "commit"), (b"2", "abort"), (b"3", "commit")):
            producer.begin_transaction()
            producer.produce(name, value)
            producer.flush()
            getattr(producer, f"{ends}_transaction")()
        wait_for(reader, 2)
        assert reader.values() == [1, 3]
    page = ask(running, name, accept="application/json").json()
    assert page["next"] == "0=6"
    with following(f"{running.url}/topics/{name}", after="0=6") as reader:
        put(log, name, 4)
        wait_for(reader, 1)
        assert reader.values() == [4]


def test_what_retention_took_is_told_as_a_gap(log: Log, topic: Callable[..., str], running):
    from confluent_kafka import TopicPartition

    name = topic()
    put(log, name, *range(10))
    for future in log.admin.delete_records([TopicPartition(name, 0, 6)]).values():
        future.result(30)
    with following(f"{running.url}/topics/{name}", after="0=2") as reader:
        wait_for(reader, 4)
        assert reader.list()[0] == ("gap", "", {"partition": 0, "from": 2, "to": 6})
        assert [int(value) for value in reader.values()] == [6, 7, 8, 9]


# ---- pages and refusals ---------------------------------------------------------------------------


def ask(running: Running, topic: str, accept: str = "text/event-stream", **words) -> httpx.Response:
    return httpx.get(f"{running.url}/topics/{topic}", params=words, headers={"accept": accept})


def test_without_a_stream_there_are_pages_one_after_the_other(log: Log, topic, running):
    name = topic(partitions=2)
    put(log, name, *[(str(n), {"n": n}) for n in range(25)])
    found, words = [], {"limit": "10"}
    while True:
        page = ask(running, name, accept="*/*", **words).json()
        found += [each["value"]["n"] for each in page["records"]]
        words["after"] = page["next"]
        if not page["more"]:
            break
    assert sorted(found) == list(range(25))
    put(log, name, ("x", {"n": 25}))
    assert [r["value"]["n"] for r in ask(running, name, "*/*", **words).json()["records"]] == [25]
    page = ask(running, name, accept="*/*", where="n=7").json()
    assert [r["value"]["n"] for r in page["records"]] == [7]


@pytest.mark.parametrize("accept", ["text/event-stream", "application/json"])
def test_what_cannot_be_followed_is_answered_with_a_problem(log: Log, topic, running, accept):
    name = topic()
    put(log, name, 1)
    for words, status in (
        ({"after": "nonsense"}, 400),
        ({"after": "0=99"}, 404),
        ({"after": "5=0"}, 404),
        ({"where": "total>5"}, 400),
        ({"grep": "/(/"}, 400),
        ({"from": "someday"}, 400),
    ):
        answer = ask(running, name, accept, **words)
        assert answer.status_code == status, (words, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["hint"]
    assert ask(running, "nowhere", accept).status_code == 404


def test_a_topic_that_is_deleted_ends_its_feeds_with_the_reason(
    log: Log, topic, running, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(following_module, "PARTITIONS_EVERY_S", 0.2)
    name = topic()
    with following(f"{running.url}/topics/{name}") as reader:
        log.admin.delete_topics([name])[name].result()
        until(lambda: reader.named("dropped"), "the end")
        assert name in reader.named("dropped")[0]["reason"]
        until(lambda: reader.is_over, "the end of the answer")


def test_a_feed_that_ended_lets_its_topic_go(log: Log, topic: Callable[..., str], running):
    name = topic()
    hub = hub_of(running.context)
    with following(f"{running.url}/topics/{name}"):
        assert hub.feeds()[name] == 1
    until(lambda: hub.feeds().get(name, 0) == 0 and hub.clients == 0, "nobody")
    status = httpx.get(f"{running.url}/status").json()["services"]["feeds"]
    assert status["clients"] == 0 and json.dumps(status)
