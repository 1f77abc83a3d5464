"""The console's memory of the last minutes: rates, lags, and a bound on what is kept."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headwater import testing
from headwater.client.errors import BrokerUnreachable
from headwater.client.log import Log
from headwater.console import history
from headwater.console.history import History, Sample


def test_a_rate_is_over_the_last_ten_seconds():
    #   0 s        20 s       25 s      30 s
    #   0 records  1000       1000      1500     → (1500 − 1000) / 10 s
    past = [Sample(s * 1000, {"orders": end}) for s, end in ((0, 0), (20, 1000), (25, 1000))]
    assert history.rate_of([*past, Sample(30_000, {"orders": 1500})], "orders") == 50.0


def test_a_rate_needs_two_samples_and_is_never_negative():
    once = [Sample(1000, {"orders": 5})]
    assert history.rate_of([], "orders") is None
    assert history.rate_of(once, "orders") is None
    assert history.rate_of(once, "others") is None
    assert history.rate_of([*once, Sample(2000, {"orders": 0})], "orders") == 0.0


def test_what_is_kept_is_bounded_by_its_points(monkeypatch):
    monkeypatch.setattr(history, "POINTS_MAX", 100)
    kept = History("127.0.0.1:1", {})
    for second in range(50):
        kept.keep(Sample(second, lags={"g": {("orders", p): second for p in range(30)}}))
    assert [each.time_ms for each in kept.samples()] == [47, 48, 49]
    assert kept.lags() == {"g": {"orders": 49 * 30}}
    assert len(kept.lag("g")) == 3
    assert kept.lag("other") == []


def test_a_look_finds_ends_and_lags():
    with testing.broker() as kafka:
        settings = {"bootstrap.servers": kafka.bootstrap}
        producer = Producer(settings)
        for number in range(7):
            producer.produce("orders", str(number), partition=0)
        assert producer.flush(60) == 0
        reader = Consumer({**settings, "group.id": "billing"})
        reader.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
        reader.close()
        with Log(kafka.bootstrap) as log:
            found = history.look(log)
    assert found.ends["orders"] == 7
    assert found.lags == {"billing": {("orders", 0): 2}}


def test_a_broker_that_is_away_is_a_sentence():
    kept = History("127.0.0.1:1", {})
    kept.start()
    try:
        deadline = time.monotonic() + 100
        while kept.trouble is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert kept.trouble == "no broker answers at 127.0.0.1:1"
        with pytest.raises(BrokerUnreachable, match="no broker answers"):
            kept.checked(lambda: 1)()
        assert kept.topics() == []
        assert kept.end("orders") is None
    finally:
        kept.stop()
