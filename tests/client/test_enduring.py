"""Clients that live on while their broker is started again."""

from __future__ import annotations

import gc
import weakref

import pytest
from confluent_kafka import Producer

from headwater.capture.writer import Writer
from headwater.client.log import Log
from headwater.client.options import RECONNECT_MAX_MS, cluster_settings, enduring
from headwater.events.options import for_confluent

ADDRESS = "127.0.0.1:9"


@pytest.mark.parametrize(
    "settings",
    [
        Log(ADDRESS).settings,
        Writer("shop", ADDRESS)._settings,
        for_confluent(ADDRESS),
    ],
    ids=["log", "capture", "events"],
)
def test_a_client_that_lives_on_looks_for_its_broker_several_times_a_second(settings):
    assert settings["reconnect.backoff.max.ms"] == RECONNECT_MAX_MS <= 250
    assert settings["metadata.recovery.strategy"] == "none"


@pytest.mark.parametrize("first_ms", ["1", "100", "250", "3000"])
def test_librdkafka_takes_any_first_pause_that_somebody_asks_for(first_ms):
    settings = enduring({"reconnect.backoff.ms": first_ms})
    Producer({"bootstrap.servers": ADDRESS, "log_level": 0, **settings})
    assert settings["reconnect.backoff.ms"] == first_ms


@pytest.mark.parametrize("most_ms", ["10", "10000"])
def test_who_asks_for_other_pauses_has_them(most_ms):
    settings = enduring({"reconnect.backoff.max.ms": most_ms})
    Producer({"bootstrap.servers": ADDRESS, "log_level": 0, **settings})
    assert settings["reconnect.backoff.max.ms"] == most_ms


def test_the_own_client_is_told_nothing_of_it():
    said = cluster_settings({"bootstrap.servers": ADDRESS, **enduring()})
    assert not any(name.startswith("reconnect") for name in said)


def test_a_log_that_nobody_holds_any_more_is_gone_at_once_with_its_threads() -> None:
    gc.disable()
    try:
        found = Log(ADDRESS)
        assert found.admin is not None
        seen = weakref.ref(found)
        del found
        assert seen() is None, "who makes one for each request would have four threads for each"
    finally:
        gc.enable()
