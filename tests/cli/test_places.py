"""Where a broker works: words win over settings, and Kafka's own file can be carried over."""

from __future__ import annotations

from pathlib import Path

from headwater.cli.quick import Places, places

KAFKAS_OWN = {
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "log.dirs": "/var/lib/kafka",
}


def test_without_words_and_settings_the_defaults_hold():
    assert places({}) == Places(Path("data/log"), "127.0.0.1:9092", None, "disk")


def test_kafkas_own_server_properties_are_understood():
    # Where to listen is the broker's to read: there may be several addresses.
    assert places(KAFKAS_OWN) == Places(Path("/var/lib/kafka"), None, None, "disk")


def test_a_word_wins_over_a_setting():
    words = {"data": "d", "listen": "h:1", "advertise": "a:2", "durability": "disk"}
    chosen = places({**KAFKAS_OWN, "durability": "os"}, **words)
    assert chosen == Places(Path("d"), "h:1", "a:2", "disk")


def test_durability_may_be_a_setting():
    assert places({"durability": "os"}).durability == "os"
